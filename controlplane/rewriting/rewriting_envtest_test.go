//go:build envtest

package rewriting_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rewriting"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

var (
	widgets = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"}
	allows  = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "AllowList"}
	gears   = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gear"}
)

// served is a kube-apiserver with its etcd, as the API servers of a tenant are in a phase of a rotation.
type served struct {
	t           *testing.T
	environment *envtest.Environment
	spec        controlplanev1.EncryptionAtRestSpec
	path        string
	etcd        *clientv3.Client
	config      *rest.Config
	api         client.Client
	// former and next are the keys, file what the name of the next one ends in.
	former, next []byte
	file         string
}

func serve(t *testing.T, resources ...string) *served {
	t.Helper()
	s := &served{
		t: t, environment: &envtest.Environment{}, path: filepath.Join(t.TempDir(), pki.EncryptionFileName),
		spec:   controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: resources},
		former: []byte(strings.Repeat("f", 32)), next: []byte(strings.Repeat("n", 32)),
	}
	s.file = strings.TrimPrefix(pki.EncryptionKeys(s.next, false)[0].Name, "key-")
	s.configure("former")
	s.environment.ControlPlane.GetAPIServer().Configure().Set("encryption-provider-config", s.path)
	stop, err := interrupt.Guard(func() error { _, err := s.environment.Start(); return err }, s.environment.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	s.config = s.environment.Config
	if s.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{s.environment.ControlPlane.Etcd.URL.String()}, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.etcd.Close() })
	s.connect()
	return s
}

func (s *served) connect() {
	s.t.Helper()
	s.config.QPS = -1
	var err error
	if s.api, err = client.New(s.config, client.Options{}); err != nil {
		s.t.Fatal(err)
	}
}

// configure writes the configuration with keys, the first of which writes.
func (s *served) configure(keys ...string) {
	s.t.Helper()
	order := pki.EncryptionKeys(nil, false)
	for _, key := range keys {
		if key == "former" {
			order = append(order, pki.EncryptionKeys(s.former, true)...)
		} else {
			order = append(order, pki.EncryptionKeys(s.next, false)...)
		}
	}
	content, err := pki.EncryptionConfiguration(s.spec, order)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// restart has the API server restart with these keys.
func (s *served) restart(keys ...string) {
	s.t.Helper()
	server := s.environment.ControlPlane.APIServer
	if err := server.Stop(); err != nil {
		s.t.Fatal(err)
	}
	s.configure(keys...)
	if err := server.Start(); err != nil {
		s.t.Fatal(err)
	}
	// Each start has certificates of its own.
	admin, err := s.environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.config = admin.Config()
	s.connect()
}

func (s *served) create(objects ...client.Object) {
	s.t.Helper()
	for _, object := range objects {
		if err := s.api.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}

// raw are the values in etcd that begin so, by key, with the revisions at which they were written.
func (s *served) raw(begins string) map[string]int64 {
	s.t.Helper()
	all, err := s.etcd.Get(s.t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[string]int64{}
	for _, kv := range all.Kvs {
		if strings.HasPrefix(string(kv.Value), begins) {
			found[string(kv.Key)] = kv.ModRevision
		}
	}
	return found
}

func (s *served) rewriter() *rewriting.Rewriter {
	members := map[string]etcd.Address{"one": {Client: s.environment.ControlPlane.Etcd.URL.String()}}
	return &rewriting.Rewriter{
		File: s.file,
		Etcds: []rewriting.Etcd{func(ctx context.Context, from string, do func(string, []byte) bool) (string, error) {
			return etcd.EachValue(ctx, members, nil, from, do)
		}},
		Connect: func() (*rest.Config, error) { return rest.CopyConfig(s.config), nil },
	}
}

func custom(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"secret": "what must stay"}}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func (s *served) makeKinds() {
	s.t.Helper()
	definition := func(kind, plural string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.org"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.org", Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural, ListKind: kind + "List", Singular: strings.ToLower(kind)},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
				}},
			},
		}
	}
	if _, err := envtest.InstallCRDs(s.config, envtest.CRDInstallOptions{MaxTime: 3 * time.Minute, CRDs: []*apiextensionsv1.CustomResourceDefinition{
		definition("Widget", "widgets", apiextensionsv1.NamespaceScoped), definition("Gear", "gears", apiextensionsv1.ClusterScoped),
		definition("AllowList", "allowlists", apiextensionsv1.ClusterScoped),
	}}); err != nil {
		s.t.Fatal(err)
	}
}

const (
	byFormer = "k8s:enc:secretbox:v1:key1:"
	secrets  = 230
)

// A real kube-apiserver judges each configuration, and the bytes in etcd what was done.
func TestNothingInEtcdIsOfTheFormerKeyAfterARewriting(t *testing.T) {
	s := serve(t, "secrets", "configmaps", "*.example.org")
	s.makeKinds()
	name := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("a-%03d", i)}
	}
	for i := range secrets {
		s.create(&corev1.Secret{ObjectMeta: name(i), StringData: map[string]string{"a": "what must stay"}, Immutable: ptr.To(i%2 == 0)})
	}
	s.create(&corev1.ConfigMap{ObjectMeta: name(0)}, custom(widgets, "default", "a"), custom(gears, "", "b"), custom(allows, "", "c"), &corev1.ServiceAccount{ObjectMeta: name(0)})

	// While API servers come to trust both keys, the former one writes.
	s.restart("former", "next")
	s.create(&corev1.Secret{ObjectMeta: name(900)})
	if found := s.raw(byFormer); found["/registry/secrets/default/a-900"] == 0 || len(found) < secrets+5 {
		t.Fatalf("%d values are of the former key", len(found))
	}
	s.restart("next", "former")
	byNext := "k8s:enc:secretbox:v1:key-" + s.file + ":"
	s.create(&corev1.Secret{ObjectMeta: name(901), StringData: map[string]string{"a": "what must stay"}})
	before := s.raw(byFormer)
	if found := s.raw(byNext); found["/registry/secrets/default/a-901"] == 0 || len(before) < secrets+5 {
		t.Fatalf("%v are of the next key, %d of the former one", found, len(before))
	}
	plain := s.raw("k8s\x00")
	kept, err := s.etcd.Get(t.Context(), "/registry/secrets/default/a-007")
	if err != nil {
		t.Fatal(err)
	}

	rewriter := s.rewriter()
	progress, err := rewriter.Run(t.Context())
	if err != nil || !progress.Done || len(progress.Left) > 0 || progress.Rewritten < len(before) {
		t.Fatalf("it came to %+v, %v", progress, err)
	}
	if left := s.raw(byFormer); len(left) > 0 {
		t.Errorf("these are of the former key: %v", left)
	}
	after := s.raw(byNext)
	for key := range before {
		if after[key] == 0 {
			t.Errorf("%s is not of the next key", key)
		}
	}
	for key, revision := range plain {
		if strings.HasPrefix(key, "/registry/serviceaccounts/") && s.raw("k8s\x00")[key] != revision {
			t.Errorf("%s was written, though it is not encrypted", key)
		}
	}
	if before["/registry/secrets/default/a-901"] != 0 || after["/registry/secrets/default/a-901"] == 0 {
		t.Error("what the next key encrypted is not as it was")
	}

	// API servers that do not yet use the next key read what it wrote, and those that have dropped the former one read all.
	for _, keys := range [][]string{{"former", "next"}, {"next"}} {
		s.restart(keys...)
		list := &corev1.SecretList{}
		if err := s.api.List(t.Context(), list, client.InNamespace("default")); err != nil || len(list.Items) != secrets+2 {
			t.Fatalf("with %v it reads %d Secrets: %v", keys, len(list.Items), err)
		}
		for i := range list.Items {
			if secret := &list.Items[i]; secret.Name != "a-900" && string(secret.Data["a"]) != "what must stay" {
				t.Fatalf("Secret %s has %v", secret.Name, secret.Data)
			}
		}
		for _, object := range []*unstructured.Unstructured{custom(widgets, "default", "a"), custom(gears, "", "b")} {
			if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Error(err)
			}
		}
	}
	// Without the rewriting it would be lost: that is what the test is about.
	if _, err := s.etcd.Put(t.Context(), "/registry/secrets/default/a-007", string(kept.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a-007"}, &corev1.Secret{}); err == nil {
		t.Error("an API server reads what a key encrypted that it does not have")
	}
	if progress, err := s.rewriter().Run(t.Context()); err == nil || progress.Done || progress.Left["secrets"] != 1 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

// All that API servers encrypt is found and written again, whatever it is and wherever etcd has it.
func TestEveryResourceIsRewritten(t *testing.T) {
	s := serve(t, "*.*")
	s.makeKinds()
	s.create(custom(widgets, "default", "a"), custom(gears, "", "b"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		// Their keys do not begin with the names of their resources.
		&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}, //nolint:staticcheck // API servers still store them.
		&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: corev1.ReplicationControllerSpec{
			Selector: map[string]string{"a": "b"}, Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		}},
		&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}})
	s.restart("next", "former")
	if found := s.raw(byFormer); len(found) < 50 {
		t.Fatalf("%d values are of the former key", len(found))
	}
	// API servers themselves write again what is not of their API, such as their ranges of ports, every few minutes.
	own := func(key string) bool {
		return strings.HasPrefix(key, "/registry/ranges/") || strings.HasPrefix(key, "/registry/masterleases/") || strings.HasPrefix(key, "/registry/peerserverleases/")
	}
	rewriter := s.rewriter()
	for end := time.Now().Add(2 * time.Minute); ; {
		progress, err := rewriter.Run(t.Context())
		if err != nil {
			t.Logf("meanwhile: %v", err)
		}
		left := s.raw(byFormer)
		for key := range left {
			if own(key) {
				delete(left, key)
			}
		}
		if progress.Done || len(left) == 0 {
			t.Logf("done: %t; left: %v", progress.Done, progress.Left)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left are %v of %+v", left, progress)
		}
	}
}

// A page that has too many bytes is asked for in parts: values are up to 1.5 MiB.
func TestLargeValuesAreRead(t *testing.T) {
	s := serve(t, "secrets")
	for i := range 24 {
		_, err := s.etcd.Put(t.Context(), fmt.Sprintf("/registry/secrets/default/large-%02d", i), byFormer+base64.StdEncoding.EncodeToString(make([]byte, 900<<10)))
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	members := map[string]etcd.Address{"one": {Client: s.environment.ControlPlane.Etcd.URL.String()}}
	next, err := etcd.EachValue(t.Context(), members, nil, "", func(key string, value []byte) bool {
		if seen[key] {
			t.Errorf("%s came twice", key)
		}
		seen[key] = strings.HasPrefix(string(value), byFormer)
		return true
	})
	if err != nil || next != "" {
		t.Fatalf("it ends at %q: %v", next, err)
	}
	for i := range 24 {
		if key := fmt.Sprintf("/registry/secrets/default/large-%02d", i); !seen[key] {
			t.Errorf("%s was not seen", key)
		}
	}
	if all, err := s.etcd.Get(t.Context(), etcd.Registry, clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || int64(len(seen)) < all.Count-10 {
		t.Errorf("%d of %v were seen: %v", len(seen), all, err)
	}
}
