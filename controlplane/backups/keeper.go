package backups

import (
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
)

// timeout bounds each probe.
const timeout = 10 * time.Second

// Keeper does what backups need besides decisions: it asks members and tenants, reads credentials, and keeps an object for each snapshot.
type Keeper struct {
	// Client writes to the management cluster; its reads come from a cache.
	Client client.Client
	// Live reads what no cache holds.
	Live   client.Reader
	Prober Prober
	Clock  clock.PassiveClock
}

// Prober is what a Keeper needs of a probe.Prober.
type Prober interface {
	Probe(probe.Key, probe.Probe) (probe.Result, bool)
	Withdraw(probe.Key)
}

// Facts are what a reconcile knows of a control plane whose data etcd is backed up. Nothing here changes them.
type Facts struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      client.ObjectKey
	Keys         *pki.KeyMaterial
	// HostCluster identifies the host cluster.
	HostCluster string
	// Settled is passed on to probe.Probe: the first bad answers about a settled control plane do not count.
	Settled bool
	// Members are the members of the data etcd whose addresses are known.
	Members []Member
	// UID asks the tenant for the UID of its namespace kube-system; nil while nobody may ask the tenant. The Keeper sets its Timeout.
	UID *probe.Probe
}

func (f *Facts) probe(kind string) probe.Key { return probeKey(f.ControlPlane, kind) }

func probeKey(controlPlane *controlplanev1.KOKControlPlane, kind string) probe.Key {
	return probe.Key{Object: client.ObjectKeyFromObject(controlPlane), Kind: kind}
}
