package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// The functions below run in place of a step while a step before it waits or fails. That may last: an upgrade waits for a host node for as
// long as it is off. Meanwhile they repair what runs, as its stored rendering has it.

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
