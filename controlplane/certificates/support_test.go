package certificates

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets/secretstest"
)

var (
	cluster = client.ObjectKey{Namespace: secretstest.Namespace, Name: "blue"}
	owner   = &metav1.OwnerReference{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane", Name: "blue", UID: "uid-1", Controller: ptr.To(true),
	}
)

// world is two clusters, and a tenant whose key material is in them.
type world struct {
	*secretstest.Clusters
	Issuer
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	store *pki.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, Clusters: secretstest.New(t), clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.store = &pki.Store{Management: w.Access(w.Management), Host: w.Access(w.Host)}
	w.Issuer = Issuer{Clock: w.clock}
	w.ensure()
	return w
}

// ensure reads the key material, and makes it the first time.
func (w *world) ensure() {
	w.t.Helper()
	var err error
	w.Keys, err = w.store.Ensure(w.t.Context(), pki.Request{Cluster: cluster, UsedBy: func(context.Context) (string, error) { return "", nil }})
	if err != nil {
		w.t.Fatal(err)
	}
}

// rotate takes the CA of a signer, which is in the phase before, to a phase. It returns the new CA.
func (w *world) rotate(signer pki.Signer, phase rotation.Phase) *pki.CA {
	w.t.Helper()
	if err := w.store.Rotate(w.t.Context(), cluster, w.Keys, string(signer), rotation.Record{Asked: "2026-03-04T05:06:07Z", Phase: phase}); err != nil {
		w.t.Fatal(err)
	}
	w.ensure()
	next, err := w.Keys.CAByFile(signer, w.Keys.Rotation(string(signer)).File())
	if err != nil {
		w.t.Fatal(err)
	}
	return next
}
