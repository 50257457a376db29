package pki

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets/secretstest"
)

var cluster = client.ObjectKey{Namespace: secretstest.Namespace, Name: "blue"}

// world is two clusters, and a tenant whose key material is in them.
type world struct {
	*secretstest.Clusters
	t     *testing.T
	store *Store
	// running says that components were applied.
	running bool
	asked   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, Clusters: secretstest.New(t)}
	w.store = &Store{Management: w.Access(w.Management), Host: w.Access(w.Host)}
	return w
}

func (w *world) request() Request {
	return Request{
		Cluster: cluster,
		Owner: &metav1.OwnerReference{
			APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane", Name: "blue", UID: "uid-1", Controller: ptr.To(true),
		},
		Encryption: controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: []string{"secrets"}},
		UsedBy: func(context.Context) (string, error) {
			w.asked++
			if w.running {
				return "StatefulSet blue-etcd-data", nil
			}
			return "", nil
		},
	}
}

// ensure is Ensure that must succeed.
func (w *world) ensure() *KeyMaterial {
	w.t.Helper()
	material, err := w.store.Ensure(w.t.Context(), w.request())
	if err != nil {
		w.t.Fatalf("Ensure: %v", err)
	}
	return material
}

// settled fails the test if one more call of Ensure writes.
func (w *world) settled() {
	w.t.Helper()
	before := w.Writes.Load()
	w.ensure()
	if n := w.Writes.Load() - before; n != 0 {
		w.t.Fatalf("a settled tenant cost %d writes", n)
	}
}

// same fails the test unless both are the same keys.
func same(t *testing.T, a, b *KeyMaterial) {
	t.Helper()
	for _, signer := range []Signer{ClusterCA, EtcdCA, EtcdEventsCA, FrontProxyCA} {
		if !a.CA(signer).Certificate.Equal(b.CA(signer).Certificate) || !SamePublicKey(a.CA(signer).Key.Public(), b.CA(signer).Key.Public()) {
			t.Fatalf("the %s changed", signer)
		}
	}
	if string(a.ServiceAccountKey) != string(b.ServiceAccountKey) || string(a.ServiceAccountPub) != string(b.ServiceAccountPub) {
		t.Fatal("the service account key changed")
	}
	if string(a.EncryptionKey) != string(b.EncryptionKey) {
		t.Fatal("the encryption key changed")
	}
}
