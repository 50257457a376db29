package operator

import (
	"context"
	"testing"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// What runs with the certificate and the CAs of one phase ends when these change. It does not end when the CA of the other etcd changes.
func TestAnotherPhaseOfItsCAIsAnotherIdentity(t *testing.T) {
	host := fake.NewClientBuilder().Build()
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	store := &pki.Store{Management: access, Host: access}
	data, events := newTask(host), newTask(host)
	events.Cluster = etcdcomponent.Events
	ensure := func() {
		t.Helper()
		keys, err := store.Ensure(t.Context(), pki.Request{Cluster: data.Input.Cluster, UsedBy: func(context.Context) (string, error) { return "", nil }})
		if err != nil {
			t.Fatal(err)
		}
		data.Keys, events.Keys = keys, keys
	}
	ensure()
	before, other := data.Identity(), events.Identity()
	for _, test := range []struct {
		phase   rotation.Phase
		another bool
	}{
		{rotation.Trusting, true}, {rotation.Using, true}, {rotation.Prepared, false}, {rotation.Dropping, true}, {rotation.Over, false},
	} {
		record := rotation.Record{Asked: "2026-01-02T03:04:05Z", Phase: test.phase}
		if err := store.Rotate(t.Context(), data.Input.Cluster, data.Keys, string(pki.EtcdCA), record); err != nil {
			t.Fatal(err)
		}
		ensure()
		now := data.Identity()
		if (now != before) != test.another {
			t.Errorf("%s: it is %t that it is another one", test.phase, now != before)
		}
		if before = now; events.Identity() != other {
			t.Errorf("%s: the events etcd is another one", test.phase)
		}
		if _, _, err := data.Reach(clock.RealClock{}); err != nil {
			t.Errorf("%s: %v", test.phase, err)
		}
	}
}
