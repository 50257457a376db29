package tenantprobes

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// MachinesKind is the kind of the probe that brings what machines need to join.
const MachinesKind = "tenant"

// ForMachines has no problem when the tenant's API answered at its endpoint and held what joining machines need, and what brings nodes the
// cluster CA while that rotates and only then, when it was last probed. It is probed in the background, and at once when the number of ready
// API servers changes or etcd was founded anew. asked is false until the first result.
func (k *Keeper) ForMachines(ctx context.Context, of *Facts, apiServers *workloads.State) (problem string, asked bool, err error) {
	in := of.Input
	shared, err := in.Exposure.AddrPort()
	if err != nil {
		return "", false, err
	}
	trusted, err := certificates.Trusted(of.Keys, pki.ClusterCA)
	if err != nil {
		return "", false, err
	}
	settings := tenant.Settings{
		ClusterName:               in.Cluster.Name,
		Version:                   in.Version,
		PodCIDRs:                  in.Network.PodCIDRs,
		ServiceCIDRs:              in.Network.ServiceCIDRs,
		DNSDomain:                 in.Network.DNSDomain,
		CABundle:                  trusted,
		ImageRepository:           in.Spec.ImageRepository,
		APIServers:                shared,
		KubeletServerTLSBootstrap: true,
	}
	nodes, missing, err := k.ofNodes(ctx, of)
	if missing != "" || err != nil {
		return missing, true, err
	}
	check := &objectsProbe{api: k.Tenants.Of(of.ControlPlane, of.Keys), what: "the objects that machines need to join"}
	check.objects = func() (wanted, unwanted []client.Object, err error) {
		wanted, err = tenant.Objects(settings)
		return append(wanted, nodes...), tenant.Unwanted(), err
	}
	if rotated := of.Keys.Rotation(string(pki.ClusterCA)); rotated == nil || !rotated.UnderWay() {
		// A restore of etcd may have brought them back, also into a tenant that never rotated its CA.
		check.remove, check.removeAgain = nodekeys.Remove, rotated != nil
	}
	probing, err := check.probe()
	if err != nil {
		return "", false, err
	}
	probing.Settled = of.Settled
	// Etcd that was founded anew has the objects of another time.
	data := etcdclusters.Status(of.ControlPlane, names.EtcdData)
	probing.Prompt = fmt.Sprintf("etcd %s, restored at %s", data.ClusterID, rebuild.Stamp(data.RestoredAt.Time))
	if apiServers != nil {
		probing.Prompt += fmt.Sprintf(", %d are ready", apiServers.Ready)
	}
	result, asked := k.Prober.Probe(of.probe(MachinesKind), probing)
	if !asked {
		result.Problem = fmt.Sprintf("the tenant's API at %s is being probed", check.api.address)
	}
	return result.Problem, asked, nil
}

// ofNodes are the objects that bring nodes the cluster CA while that rotates, or says what a person has to do before.
func (k *Keeper) ofNodes(ctx context.Context, of *Facts) (objects []client.Object, missing string, err error) {
	if of.Nodes == nil {
		return nil, "", nil
	}
	wanted := *of.Nodes
	if wanted.ImagePullSecret, missing, err = k.imagePullSecret(ctx, of.ControlPlane); missing != "" || err != nil {
		return nil, missing, err
	}
	return nodekeys.Objects(wanted), "", nil
}
