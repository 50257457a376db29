package controllers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// tenantProbeKind is the kind of the probe that brings what machines need to join.
const tenantProbeKind = "tenant"

// applyTenantObjects is done when the tenant's API answered at its endpoint and held what joining
// machines need, when it was last probed. It is probed in the background, and at once when the number
// of ready API servers changes.
func (r *Reconciler) applyTenantObjects(_ context.Context, s *scope) flow.Result {
	shared, err := s.input.Exposure.AddrPort()
	if err != nil {
		return flow.Failed(err)
	}
	settings := tenant.Settings{
		ClusterName:               s.key.Name,
		Version:                   s.input.Version,
		PodCIDRs:                  s.input.Network.PodCIDRs,
		ServiceCIDRs:              s.input.Network.ServiceCIDRs,
		DNSDomain:                 s.input.Network.DNSDomain,
		CABundle:                  s.keys.ClusterCA.Bundle,
		ImageRepository:           s.input.Spec.ImageRepository,
		APIServers:                shared,
		KubeletServerTLSBootstrap: true,
	}
	check := r.tenantProbe(s)
	check.what = "the objects that machines need to join"
	check.objects = func() (wanted, unwanted []client.Object, err error) {
		wanted, err = tenant.Objects(settings)
		return wanted, tenant.Unwanted(), err
	}
	probing, err := check.probe()
	if err != nil {
		return flow.Failed(err)
	}
	probing.Settled = s.settled()
	if state := workloads.StateOf(s.applied(names.KubeAPIServer)); state != nil {
		probing.Prompt = fmt.Sprintf("%d are ready", state.Ready)
	}
	result, ok := r.prober.Probe(probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: tenantProbeKind}, probing)
	if !ok {
		s.probing = true
		return flow.Waiting(fmt.Sprintf("the tenant's API at %s is being probed", check.address))
	}
	return flow.Waiting(result.Problem)
}
