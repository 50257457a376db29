//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// webhook guards ConfigMaps of namespace default, and counts what it is asked.
func (k *konnectivityTenant) webhook() *atomic.Int64 {
	g := NewWithT(k.t)
	asked := &atomic.Int64{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked.Add(1)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	serving := k.issued.data[names.KubeAPIServer]
	pair, err := tls.X509KeyPair(serving["server.crt"], serving["server.key"])
	g.Expect(err).NotTo(HaveOccurred())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	listener, err := net.Listen("tcp", "127.251.0.10:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	server.StartTLS()
	k.t.Cleanup(server.Close)
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	g.Expect(k.client.Create(k.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard"},
		Spec:       corev1.ServiceSpec{ClusterIP: "127.251.0.10", Ports: []corev1.ServicePort{{Port: port}}},
	})).To(Succeed())
	k.guardPort = port
	// The same at the address of a name.
	named, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	g.Expect(err).NotTo(HaveOccurred())
	k.t.Cleanup(func() { _ = named.Close() })
	go func() { _ = server.Config.Serve(tls.NewListener(named, server.TLS)) }()
	k.guard("guard", admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "guard", Port: &port},
	})
	return asked
}

// guard has a webhook asked about ConfigMaps of namespace default.
func (k *konnectivityTenant) guard(name string, at admissionregistrationv1.WebhookClientConfig) {
	at.CABundle = k.issued.keys.ClusterCA.Bundle
	NewWithT(k.t).Expect(k.client.Create(k.t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         name + ".example.com",
			ClientConfig: at,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "default"}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds:          ptr.To[int32](5),
		}},
	})).To(Succeed())
}

func (k *konnectivityTenant) guardByURL(url string) {
	k.guard("by-url", admissionregistrationv1.WebhookClientConfig{URL: &url})
}

// kubelet is one that answers every request for logs, with a pod on its node.
func (k *konnectivityTenant) kubelet() {
	g := NewWithT(k.t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	listener, err := net.Listen("tcp", workerAddress+":0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	server.StartTLS()
	k.t.Cleanup(server.Close)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	g.Expect(k.client.Create(k.t.Context(), node)).To(Succeed())
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: workerAddress}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	g.Expect(k.client.Status().Update(k.t.Context(), node)).To(Succeed())
	g.Expect(k.client.Create(k.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "speaker"},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})).To(Succeed())
}

// logs are those of the pod on the worker.
func (k *konnectivityTenant) logs(ctx context.Context) (string, error) {
	clientset, err := kubernetes.NewForConfig(k.environment.Config)
	if err != nil {
		return "", err
	}
	text, err := clientset.CoreV1().Pods("kube-system").GetLogs("speaker", &corev1.PodLogOptions{}).DoRaw(ctx)
	return string(text), err
}

// create makes an object that the webhook is asked about.
func (k *konnectivityTenant) create(ctx context.Context) error {
	return k.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "guarded-"}})
}
