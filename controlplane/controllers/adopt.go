package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdmembers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
)

// adopter adopts renderings by what this reconcile knows now.
func (s *scope) adopter() *adoption.Adopter {
	adopter := &adoption.Adopter{
		ControlPlane: s.controlPlane, Cluster: s.key, Host: s.host, HostOwner: s.hostOwner(), Revisions: s.revisions, Input: &s.input,
		Upgrading: s.upgrading(), Unsupported: s.unsupported, Refused: s.refused, RolloutAfter: s.rolloutAfter,
		Note: s.note, Repaired: s.deeds.Repair, Applied: s.remember,
	}
	if s.snapshot != nil {
		adopter.Pods = s.snapshot.Pods
	}
	return adopter
}

// members looks after members of etcd by what this reconcile knows now.
func (r *Reconciler) members(s *scope) *etcdmembers.Members {
	return &etcdmembers.Members{Adopter: s.adopter(), Restore: s.rebuild.Progress, Clock: r.Clock}
}

// applyComponent applies the component's rendering.
func applyComponent(component components.Component) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result { return s.adopter().Apply(ctx, component) }
}

// keepComponent keeps up the newest rendering that is stored of a component, while a step before waits or fails.
func keepComponent(component components.Component) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if s.rebuild.Stops(component.Name) {
			return flow.Done()
		}
		return s.adopter().Keep(ctx, component)
	}
}

// applyEtcd applies one etcd cluster, once nothing is left of the one that it takes the place of.
func (r *Reconciler) applyEtcd(cluster etcd.Cluster) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if s.formerEvents.Stops(cluster.Component) {
			return r.stopFormerEvents(ctx, s)
		}
		return r.members(s).Apply(ctx, cluster)
	}
}

// keepEtcd keeps up the workload of an etcd cluster, while a step before waits or fails.
func (r *Reconciler) keepEtcd(cluster etcd.Cluster) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if s.stops(cluster.Component) {
			return flow.Done()
		}
		return r.members(s).Keep(ctx, cluster)
	}
}
