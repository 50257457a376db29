package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// applyTenantObjects is done when the tenant's API answered at its endpoint and held what joining machines need, when it was last probed.
func (r *Reconciler) applyTenantObjects(ctx context.Context, s *scope) flow.Result {
	problem, asked, err := r.tenantKeeper().ForMachines(ctx, tenantFacts(s), workloads.StateOf(s.applied(names.KubeAPIServer)))
	if err != nil {
		return flow.Failed(err)
	}
	if !asked {
		s.probing = true
	}
	return flow.DoneOrWaiting(problem)
}

// applyAddons is done when the tenant held its addons, and none that is switched off, when it was last
// probed. It comes last and nothing waits for it: machines join without, and the API is of use.
func (r *Reconciler) applyAddons(ctx context.Context, s *scope) flow.Result {
	if s.unsupported != nil {
		return flow.Waiting(s.unsupported.Error())
	}
	problem, err := r.tenantKeeper().Addons(ctx, tenantFacts(s), s.release)
	if err != nil {
		return adoption.RenderingFailed(err)
	}
	return flow.DoneOrWaiting(problem)
}

func (r *Reconciler) tenants() tenantprobes.Tenants {
	return tenantprobes.Tenants{Clock: r.Clock, Guards: &r.guards}
}

func (r *Reconciler) tenantKeeper() *tenantprobes.Keeper {
	return &tenantprobes.Keeper{Client: r.Client, Live: r.APIReader, Prober: r.prober, Tenants: r.tenants()}
}

func tenantFacts(s *scope) *tenantprobes.Facts {
	return &tenantprobes.Facts{ControlPlane: s.controlPlane, Input: &s.input, Keys: s.keys, Nodes: s.nodes, Settled: s.settled()}
}
