package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// What follows is for while a step before waits or fails, which may last: an upgrade waits for a host that is
// off for as long as that is away. What runs is repaired all the same, by what is stored of it.

// keepComponent keeps up the newest rendering that is stored of a component.
func keepComponent(component components.Component) func(context.Context, *scope) error {
	return func(ctx context.Context, s *scope) error {
		if known, err := s.revisions.Newest(ctx, s.key, component.Name); err != nil || len(known) == 0 {
			return err
		}
		stored, err := s.revisions.Kept(ctx, s.key, component.Name)
		if err != nil {
			return err
		}
		if component.Scale != nil {
			component.Scale(&s.input, stored)
		}
		_, err = applyRendering(ctx, s, component.Name, stored)
		return err
	}
}

// keepEtcd keeps up the workload of an etcd cluster. Its configuration files name addresses, and wait for them.
func (r *Reconciler) keepEtcd(cluster etcd.Cluster) func(context.Context, *scope) error {
	return func(ctx context.Context, s *scope) error {
		if known, err := s.revisions.Newest(ctx, s.key, cluster.Component); err != nil || len(known) == 0 {
			return err
		}
		if waiting, err := formerPods(ctx, s, cluster.Component, r.Clock.Now()); waiting != "" || err != nil {
			return err
		}
		stored, err := renderedEtcd(ctx, s, cluster, true)
		if err != nil {
			return err
		}
		_, err = applyRendering(ctx, s, cluster.Component, stored)
		return err
	}
}

// keepLoadBalancer keeps the Secret with the API servers' addresses, unless it is not known where they are
// reached.
func (r *Reconciler) keepLoadBalancer(ctx context.Context, s *scope) error {
	if s.input.Ports == (ports.Ports{}) || s.input.OnPodNetwork() && s.input.Exposure == (components.Exposure{}) {
		return nil
	}
	_, err := r.ensureLoadBalancer(ctx, s)
	return err
}

// keepHosted goes on with a step that needs no keys while they are lost, once the control plane itself tells that
// something was made.
func keepHosted(run func(context.Context, *scope) (string, error)) func(context.Context, *scope) error {
	return func(ctx context.Context, s *scope) error {
		if !tellsHosted(s.controlPlane) {
			return nil
		}
		_, err := run(ctx, s)
		return err
	}
}

// keepServices goes on with Services while keys are lost, and not while their ports are not known.
func (r *Reconciler) keepServices(ctx context.Context, s *scope) error {
	if s.input.Ports == (ports.Ports{}) {
		return nil
	}
	return keepHosted(r.applyServices)(ctx, s)
}
