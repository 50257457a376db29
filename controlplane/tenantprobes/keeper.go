package tenantprobes

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
)

// Keeper keeps what the manager wants in tenants, by probes.
type Keeper struct {
	// Client writes to the management cluster.
	Client client.Client
	// Live reads from the management cluster what no cache holds.
	Live    client.Reader
	Prober  Prober
	Tenants Tenants
}

// Prober is what those who probe tenants need of a probe.Prober.
type Prober interface {
	Probe(probe.Key, probe.Probe) (probe.Result, bool)
	Withdraw(probe.Key)
}

// Facts are what a reconcile knows of a control plane and its tenant. Nothing here changes them.
type Facts struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Input        *components.Input
	Keys         *pki.KeyMaterial
	// Nodes is what nodes have to have of the cluster CA; nil while that does not rotate.
	Nodes *nodekeys.Wanted
	// Settled is passed on to probe.Probe: the first bad answers about a settled control plane do not count.
	Settled bool
}

func (f *Facts) probe(kind string) probe.Key { return probeKey(f.ControlPlane, kind) }

func probeKey(controlPlane *controlplanev1.KOKControlPlane, kind string) probe.Key {
	return probe.Key{Object: client.ObjectKeyFromObject(controlPlane), Kind: kind}
}
