package controllers

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// readHistory decides what is to be recorded of spec. What is read comes from a cache: where the host cluster is the management
// cluster, the snapshot has it.
func (r *Reconciler) readHistory(ctx context.Context, s *scope) (err error) {
	if s.snapshot == nil {
		return nil // It could not be taken, which is told.
	}
	known := s.snapshot.Revisions[history.Component]
	if !s.host.Own {
		if known, err = history.List(ctx, r.Host.Client, s.key); err != nil {
			return err
		}
	}
	in := history.Input{
		Cluster: s.key, ControlPlane: s.controlPlane, Known: history.Of(s.controlPlane, known),
		Topology: s.cluster.Spec.Topology.IsDefined(), Provider: version.Get().GitVersion, Now: r.Clock.Now(),
	}
	if len(in.Known) == 0 {
		in.Named = s.snapshot.Revisions.Specs()
	}
	if s.history, err = r.historyKeeper().Decide(ctx, in); err != nil {
		return err
	}
	s.revisions.Spec = s.history.Spec
	return nil
}

// recordSpec records a changed spec, before any component adopts the change.
func (r *Reconciler) recordSpec(ctx context.Context, s *scope) flow.Result {
	return r.historyKeeper().Record(ctx, s.controlPlane, &s.history)
}

func (r *Reconciler) historyKeeper() *history.Keeper {
	return &history.Keeper{Client: r.Client, Live: r.APIReader}
}
