package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// errNotCalled is an object that was made without the webhook: API servers have not heard of it yet.
var errNotCalled = errors.New("the API server did not call the webhook")

// called makes API servers call a webhook.
func (a *Attacker) called(ctx context.Context, config admissionregistrationv1.WebhookClientConfig) (string, error) {
	config.CABundle = a.CA
	name := a.name("webhook")
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: name + ".example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{name: ""}}, TimeoutSeconds: ptr.To[int32](4), ClientConfig: config,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}}}
	if err := a.Client.Create(ctx, webhook); err != nil {
		return "", fmt.Errorf("make a webhook: %w", err)
	}
	defer a.remove(ctx, webhook)
	return a.eventually(ctx, func(ctx context.Context) (string, error) {
		_, err := a.API.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{name: ""}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			err = errNotCalled
		}
		return "", err
	})
}

func webhookByURL(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	return a.called(ctx, admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + to.String() + "/canary")})
}

func (a *Attacker) calledBy(ctx context.Context, service *corev1.Service) (string, error) {
	return a.called(ctx, admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
		Namespace: service.Namespace, Name: service.Name, Port: ptr.To(service.Spec.Ports[0].Port), Path: ptr.To("/canary"),
	}})
}

func webhookByExternalName(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	service, err := a.service(ctx, external(to.Addr().String(), to.Port()))
	if err != nil {
		return "", err
	}
	defer a.remove(ctx, service)
	return a.calledBy(ctx, service)
}

// byOwnServer has a Service lead to a server of the attacker on the worker.
func (a *Attacker) byOwnServer(ctx context.Context, handler http.Handler, do func(context.Context, *corev1.Service) (string, error)) (string, error) {
	server, err := a.Serve(a.certificate, handler)
	if err != nil {
		return "", err
	}
	defer server.Close()
	service, err := a.leading(ctx, server.Address)
	if err != nil {
		return "", err
	}
	defer a.remove(ctx, service)
	// kube-proxy leads from the address of the Service to the server a moment later.
	began := time.Now()
	answer, err := do(ctx, service)
	for server.asked.Load() == 0 && time.Since(began) < patience {
		answer, err = do(ctx, service)
	}
	return answer, server.expectAsked(answer, err)
}

func webhookRedirect(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	return a.byOwnServer(ctx, redirect(to), a.calledBy)
}

// UseCertificate is what the attacker's servers and canaries show.
func (a *Attacker) UseCertificate(certificate *tls.Certificate) { a.certificate = certificate }
