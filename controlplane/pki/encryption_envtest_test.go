//go:build envtest

package pki

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

const plain = "what must not be read on a disk"

// kube-apiserver itself judges the configuration, and etcd's bytes what it does.
func TestEncryptionConfigurationInAKubeAPIServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), EncryptionFileName)
	key := bytes.Repeat([]byte{7}, encryptionKeySize)
	configure := func(resources ...string) {
		content, err := EncryptionConfiguration(controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: resources}, EncryptionKeys(key, true))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("secrets", "configmaps")
	environment := &envtest.Environment{}
	environment.ControlPlane.GetAPIServer().Configure().Set("encryption-provider-config", path)
	stop, err := interrupt.Guard(func() error { _, err := environment.Start(); return err }, environment.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{environment.ControlPlane.Etcd.URL.String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	raw := func(path string) []byte {
		t.Helper()
		response, err := etcd.Get(t.Context(), path)
		if err != nil || len(response.Kvs) != 1 {
			t.Fatalf("get %s from etcd: %v, %v", path, response, err)
		}
		return response.Kvs[0].Value
	}
	encrypted := func(path string) bool {
		t.Helper()
		value := raw(path)
		marked, leaks := bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:"+firstKeyName)), bytes.Contains(value, []byte(plain))
		if marked == leaks {
			t.Errorf("%s: marked as encrypted %t, readable %t", path, marked, leaks)
		}
		return marked && !leaks
	}
	api, err := client.New(environment.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	object := metav1.ObjectMeta{Namespace: "default", Name: "a"}
	secret := &corev1.Secret{ObjectMeta: object, StringData: map[string]string{"a": plain}}
	configMap := &corev1.ConfigMap{ObjectMeta: object, Data: map[string]string{"a": plain}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Annotations: map[string]string{"a": plain}}}
	for _, o := range []client.Object{secret, configMap, account} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		"/registry/secrets/default/a": true, "/registry/configmaps/default/a": true, "/registry/serviceaccounts/default/a": false,
	} {
		if encrypted(path) != want {
			t.Errorf("%s: encrypted is not %t", path, want)
		}
	}

	// One resource is no longer listed, one is for the first time.
	if err := environment.ControlPlane.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	configure("secrets", "serviceaccounts")
	if err := environment.ControlPlane.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	// Each start has certificates of its own.
	admin, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if api, err = client.New(admin.Config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{secret, configMap, account} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatalf("%T cannot be read after the list of resources changed: %v", o, err)
		}
		o.SetLabels(map[string]string{"written": "again"})
		if err := api.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if configMap.Data["a"] != plain {
		t.Errorf("data is %v", configMap.Data)
	}
	for path, want := range map[string]bool{
		"/registry/secrets/default/a": true, "/registry/configmaps/default/a": false, "/registry/serviceaccounts/default/a": true,
	} {
		if encrypted(path) != want {
			t.Errorf("%s: encrypted is not %t", path, want)
		}
	}
}
