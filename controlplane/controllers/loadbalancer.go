package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/loadbalancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// ensureLoadBalancer keeps the Secret from which other bootstrap providers take the configuration of a worker's load balancer.
func (r *Reconciler) ensureLoadBalancer(ctx context.Context, s *scope) flow.Result {
	keeper := &loadbalancer.Keeper{Client: r.Client, Live: r.APIReader}
	return flow.DoneOrFailed(keeper.Ensure(ctx, &loadbalancer.Facts{
		ControlPlane: s.controlPlane, Cluster: s.key,
		Pods: s.snapshot.Pods[names.KubeAPIServer], Wanted: int(workloads.StateOf(s.applied(names.KubeAPIServer)).Wanted()),
		Exposure: s.input.Exposure, ServiceCIDRs: s.input.Network.ServiceCIDRs, Ports: s.input.Ports,
	}))
}
