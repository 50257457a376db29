//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// victim is a listener of the host node's network, which counts connections. A tenant's administrator is to reach it by the
// tenant's API server.
type victim struct {
	*konnectivityTenant
	port    int32
	reached *atomic.Int64
}

// patience is how long an attempt may take: an API server waits for konnectivity as long as it may.
const patience = 5 * time.Second

// serviceAddress is a cluster IP of the tenant, and one of this machine.
const serviceAddress = "127.251.0.20"

// attacked is an API server with an egress selector configuration and no agents. Nobody listens at the socket where it would
// find konnectivity.
func attacked(t *testing.T, selector string, of *issued) *konnectivityTenant {
	t.Helper()
	g := NewWithT(t)
	// Paths of Unix sockets are short.
	folder, err := os.MkdirTemp("", "kok")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(os.RemoveAll(folder)).To(Succeed()) })
	k := &konnectivityTenant{t: t, issued: of, folder: folder, socket: filepath.Join(folder, "server.sock")}
	k.startAPI(selector)
	return k
}

// listen is a victim of its own for each attempt: an API server goes on to ask some of what it was once led to.
func listen(k *konnectivityTenant) *victim {
	v := &victim{konnectivityTenant: k, reached: &atomic.Int64{}}
	listener := loopback.Listen(k.t)
	v.port = int32(listener.Addr().(*net.TCPAddr).Port)
	v.accept(listener)
	service, err := net.Listen("tcp", fmt.Sprintf("%s:%d", serviceAddress, v.port))
	NewWithT(k.t).Expect(err).NotTo(HaveOccurred())
	v.accept(service)
	return v
}

func (v *victim) accept(listener net.Listener) {
	v.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			v.reached.Add(1)
			_ = connection.Close()
		}
	}()
}

// attempts are ways of a tenant's administrator to the victim. Each returns what the API server says, which is never that
// it went well: the victim ends connections at once.
var attempts = map[string]struct {
	// byURL is true where the tenant names a URL, not an object.
	byURL bool
	try   func(*victim) error
}{
	"a Node with the address of the victim, asked for logs": {false, (*victim).askForLogs},
	"a webhook that is a Service":                           {false, (*victim).askService},
	"a webhook with an address in its URL": {true, func(v *victim) error {
		return v.askURL(fmt.Sprintf("https://127.0.0.1:%d/", v.port))
	}},
	"a webhook with a name in its URL": {true, func(v *victim) error {
		return v.askURL(fmt.Sprintf("https://localhost:%d/", v.port))
	}},
	"a webhook that converts objects": {true, (*victim).askConversion},
}

func (v *victim) askForLogs() error {
	g := NewWithT(v.t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "victim"}}
	g.Expect(v.client.Create(v.t.Context(), node)).To(Succeed())
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = v.port
	g.Expect(v.client.Status().Update(v.t.Context(), node)).To(Succeed())
	g.Expect(v.client.Create(v.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})).To(Succeed())
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	_, err := v.clientset().CoreV1().Pods("default").GetLogs("reader", &corev1.PodLogOptions{}).DoRaw(ctx)
	return err
}

func (v *victim) askService() error {
	NewWithT(v.t).Expect(v.client.Create(v.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "victim"},
		Spec:       corev1.ServiceSpec{ClusterIP: serviceAddress, Ports: []corev1.ServicePort{{Port: v.port}}},
	})).To(Succeed())
	v.guard("by-service", admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "victim", Port: &v.port},
	})
	return v.asked("by-service")
}

func (v *victim) askURL(url string) error {
	v.guardByURL(url)
	return v.asked("by-url")
}

// asked makes objects until the API server asks the webhook, and takes the webhook away. The API server hears of both a little
// later.
func (v *victim) asked(name string) error {
	g := NewWithT(v.t)
	var answer error
	g.Eventually(func() error { answer = v.create(v.t.Context()); return answer }).WithTimeout(time.Minute).Should(MatchError(And(
		ContainSubstring(name), Not(ContainSubstring(`service "victim" not found`)),
	)))
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.Expect(v.client.Delete(v.t.Context(), configuration)).To(Succeed())
	g.Eventually(func() error { return v.create(v.t.Context()) }).WithTimeout(time.Minute).Should(Succeed())
	return answer
}

// askConversion reads an object in another version than it is stored in.
func (v *victim) askConversion() error {
	g := NewWithT(v.t)
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: stored, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
		}}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "baits.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "baits", Kind: "Bait"},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d/", v.port))},
			}},
		},
	}
	types := runtime.NewScheme()
	g.Expect(apiextensionsv1.AddToScheme(types)).To(Succeed())
	extensions, err := client.New(v.environment.Config, client.Options{Scheme: types})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(extensions.Create(v.t.Context(), crd)).To(Succeed())
	bait := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/" + version, "kind": "Bait", "metadata": map[string]any{"name": "bait"},
		}}
	}
	g.Eventually(func() error { return v.client.Create(v.t.Context(), bait("v1")) }).WithTimeout(time.Minute).Should(Succeed())
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	return v.client.Get(ctx, client.ObjectKey{Name: "bait"}, bait("v2"))
}

func (k *konnectivityTenant) clientset() *kubernetes.Clientset {
	clientset, err := kubernetes.NewForConfig(k.environment.Config)
	NewWithT(k.t).Expect(err).NotTo(HaveOccurred())
	return clientset
}

// An API server that has konnectivity, and no agents to it, dials nothing by itself that a tenant's administrator names.
func TestFinding2TenantsAreLedToNoHostByTheirAPIServers(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]struct {
		selector func(t *testing.T, rendered string) string
		reached  func(byURL bool) bool
	}{
		"without konnectivity all is reached": {
			func(*testing.T, string) string { return "" }, func(bool) bool { return true }},
		"as older releases configured it webhooks with a URL are": {
			func(t *testing.T, rendered string) string { return upTo(t, rendered, "controlplane") }, func(byURL bool) bool { return byURL }},
		"as it is rendered nothing is": {
			func(_ *testing.T, rendered string) string { return rendered }, func(bool) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // An attempt mostly waits.
			of := issue(t, "blue", "")
			k := attacked(t, table.selector(t, renderedSelector(t, of)), of)
			for what, attempt := range attempts {
				v := listen(k)
				if err := attempt.try(v); err == nil {
					t.Errorf("%s: the API server has no error", what)
				}
				if reached := v.reached.Load() > 0; reached != table.reached(attempt.byURL) {
					t.Errorf("%s: it is %t that it reaches the victim", what, reached)
				}
			}
		})
	}
}

// upTo is an egress selector configuration without the last selection.
func upTo(t *testing.T, selector, last string) string {
	t.Helper()
	before, _, found := strings.Cut(selector, "- name: "+last+"\n")
	if !found {
		t.Fatalf("the configuration has no %s", last)
	}
	return before
}

// documented is an address for documentation, which nobody has.
const documented = "192.0.2.1"

// What kube-apiserver proxies to may not be an address of loopback. Konnectivity's server says that it was asked, and has no agent.
func TestFinding2WhatIsProxiedGoesToKonnectivity(t *testing.T) {
	g := NewWithT(t)
	k := startKonnectivityTenant(t)
	k.startServer("host-1", k.socket)
	g.Eventually(t.Context(), k.holders).WithTimeout(2 * time.Minute).Should(ConsistOf("host-1"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
	g.Expect(k.client.Create(t.Context(), node)).To(Succeed())
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: documented}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	g.Expect(k.client.Status().Update(t.Context(), node)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "elsewhere"},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	g.Expect(k.client.Create(t.Context(), pod)).To(Succeed())
	pod.Status.PodIP, pod.Status.PodIPs = documented, []corev1.PodIP{{IP: documented}}
	g.Expect(k.client.Status().Update(t.Context(), pod)).To(Succeed())
	g.Expect(k.client.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "elsewhere"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})).To(Succeed())
	k.leadTo(pod)

	for what, path := range map[string]string{
		"a port of a Node":    "/api/v1/nodes/elsewhere:2379/proxy/",
		"the kubelet":         "/api/v1/nodes/elsewhere/proxy/metrics",
		"a port of a Pod":     "/api/v1/namespaces/default/pods/elsewhere:2379/proxy/",
		"an end of a Service": "/api/v1/namespaces/default/services/elsewhere:80/proxy/",
	} {
		answer, err := k.clientset().RESTClient().Get().AbsPath(path).Timeout(time.Minute).DoRaw(t.Context())
		if err == nil || !strings.Contains(string(answer), "No agent available") {
			t.Errorf("%s is not left to konnectivity: %v %s", what, err, answer)
		}
	}
}

// leadTo makes a pod the end of the Service of its name. Endpoints, not an EndpointSlice, are what kube-apiserver proxies to.
func (k *konnectivityTenant) leadTo(pod *corev1.Pod) {
	NewWithT(k.t).Expect(k.client.Create(k.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{"namespace": pod.Namespace, "name": pod.Name},
		"subsets": []any{map[string]any{
			"addresses": []any{map[string]any{"ip": documented, "targetRef": map[string]any{"kind": "Pod", "namespace": pod.Namespace, "name": pod.Name}}},
			"ports":     []any{map[string]any{"port": int64(2379)}},
		}},
	}})).To(Succeed())
}
