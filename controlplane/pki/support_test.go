package pki

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

var cluster = client.ObjectKey{Namespace: "team", Name: "blue"}

var errKilled = errors.New("killed before this write")

// world is two clusters, management and host, of which writes can be counted and made to fail.
type world struct {
	t                *testing.T
	store            *Store
	clock            *clocktesting.FakePassiveClock
	management, host client.WithWatch
	writes           atomic.Int32
	// failFrom is the number of writes after which every one fails; negative: none.
	failFrom atomic.Int32
	// beforeCreate runs before each creation.
	beforeCreate func(client.Object)
	// beforeUpdate runs before each update.
	beforeUpdate func(client.Object)
	// cacheMisses makes caches know nothing.
	cacheMisses bool
	// running says that components were applied.
	running bool
	asked   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.failFrom.Store(-1)
	w.management, w.host = fake.NewClientBuilder().Build(), fake.NewClientBuilder().Build()
	w.store = &Store{Clock: w.clock, Management: w.access(w.management), Host: w.access(w.host)}
	return w
}

func (w *world) write() error {
	n := w.writes.Add(1)
	if limit := w.failFrom.Load(); limit >= 0 && n > limit {
		return errKilled
	}
	return nil
}

func (w *world) access(inner client.WithWatch) Access {
	writer := interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := w.write(); err != nil {
				return err
			}
			if w.beforeCreate != nil {
				w.beforeCreate(o)
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := w.write(); err != nil {
				return err
			}
			if w.beforeUpdate != nil {
				w.beforeUpdate(o)
			}
			return c.Update(ctx, o, opts...)
		},
	})
	cached := interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.cacheMisses {
				return c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: "not-in-the-cache"}, o, opts...)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	return Access{Cached: cached, Live: inner, Writer: writer}
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
	before := w.writes.Load()
	w.ensure()
	if n := w.writes.Load() - before; n != 0 {
		w.t.Fatalf("a settled tenant cost %d writes", n)
	}
}

func (w *world) get(c client.Client, name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(w.t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: name}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func (w *world) delete(c client.Client, name string) {
	w.t.Helper()
	if err := c.Delete(w.t.Context(), w.get(c, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) edit(c client.Client, name string, edit func(*corev1.Secret)) {
	w.t.Helper()
	secret := w.get(c, name)
	edit(secret)
	if err := c.Update(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
}

// same fails the test unless both are the same keys.
func same(t *testing.T, a, b *KeyMaterial) {
	t.Helper()
	for _, signer := range []Signer{ClusterCA, EtcdCA, EtcdEventsCA, FrontProxyCA} {
		if !a.CA(signer).Certificate.Equal(b.CA(signer).Certificate) || !samePublicKey(a.CA(signer).Key.Public(), b.CA(signer).Key.Public()) {
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
