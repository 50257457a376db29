package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// What follows is for while a step before waits or fails, which may last: an upgrade waits for a host that is
// off for as long as that is away. What runs is repaired all the same, by what is stored of it.

// keepComponent keeps up the newest rendering that is stored of a component.
func keepComponent(component components.Component) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if s.rebuild.Stops(component.Name) {
			return flow.Done()
		}
		if known, err := s.revisions.Newest(ctx, s.key, component.Name); err != nil || len(known) == 0 {
			return flow.Failed(err)
		}
		stored, err := s.revisions.Kept(ctx, s.key, component.Name)
		if err != nil {
			return flow.Failed(err)
		}
		if component.Scale != nil {
			component.Scale(&s.input, stored)
		}
		return applyRendering(ctx, s, component.Name, stored)
	}
}

// keepEtcd keeps up the workload of an etcd cluster. It writes no configuration files: they need certificates and addresses, which may
// be what fails.
func (r *Reconciler) keepEtcd(cluster etcd.Cluster) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if s.stops(cluster.Component) {
			return flow.Done()
		}
		if known, err := s.revisions.Newest(ctx, s.key, cluster.Component); err != nil || len(known) == 0 {
			return flow.Failed(err)
		}
		if result := stoppingPods(ctx, s, cluster.Component, r.Clock.Now()); !result.Done() {
			return result
		}
		stored, err := renderedEtcd(ctx, s, cluster, true)
		if err != nil {
			return renderingFailed(err)
		}
		if err := resizeVolumes(ctx, s, cluster, stored); err != nil {
			return flow.Failed(err)
		}
		return applyRendering(ctx, s, cluster.Component, stored)
	}
}

// keepLoadBalancer keeps the Secret with the API servers' addresses, unless it is not known where they are
// reached.
func (r *Reconciler) keepLoadBalancer(ctx context.Context, s *scope) flow.Result {
	if s.input.Ports == (ports.Ports{}) || s.input.OnPodNetwork() && s.input.Exposure == (components.Exposure{}) {
		return flow.Done()
	}
	return r.ensureLoadBalancer(ctx, s)
}

// keepHosted goes on with a step that needs no keys while they are lost, once the control plane itself tells that
// something was made.
func keepHosted(run func(context.Context, *scope) flow.Result) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if !deletion.Hosted(s.controlPlane) {
			return flow.Done()
		}
		return run(ctx, s)
	}
}

// keepServices goes on with Services while keys are lost, and not while their ports are not known.
func (r *Reconciler) keepServices(ctx context.Context, s *scope) flow.Result {
	if s.input.Ports == (ports.Ports{}) {
		return flow.Done()
	}
	return keepHosted(r.applyServices)(ctx, s)
}
