package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// readHistory decides what is to be recorded of spec. What is read comes from a cache: where the host cluster is the management
// cluster, the snapshot has it.
func (r *Reconciler) readHistory(ctx context.Context, s *scope) error {
	if s.snapshot == nil {
		return nil // It could not be taken, which is told.
	}
	known := s.snapshot.Revisions[history.Component]
	if !s.host.Own {
		var err error
		if known, err = history.List(ctx, r.Host.Client, s.key); err != nil {
			return err
		}
	}
	in := history.Input{
		Cluster: s.key, ControlPlane: s.controlPlane, Known: history.Of(s.controlPlane, known),
		Topology: s.cluster.Spec.Topology.IsDefined(), Provider: version.Get().GitVersion, Now: r.Clock.Now(),
	}
	var err error
	if len(in.Known) == 0 {
		in.Named = s.snapshot.Revisions.Specs()
	}
	if len(in.Named) > 0 {
		// The cache may be late, and a revision without the one before it would have no way back.
		live, err := history.List(ctx, r.APIReader, s.key)
		if err != nil {
			return err
		}
		in.Known = history.Of(s.controlPlane, live)
	}
	if s.history, err = history.Decide(in); err != nil {
		return fmt.Errorf("decide on the history of spec: %w", err)
	}
	s.revisions.Spec = s.history.Spec
	return nil
}

// recordSpec makes the revision of a changed spec, before any component adopts the change, and deletes the oldest ones.
func (r *Reconciler) recordSpec(ctx context.Context, s *scope) flow.Result {
	if made := s.history.Make; made != nil {
		// A cache that lags behind shows an earlier spec, which has its revision.
		now := &controlplanev1.KOKControlPlane{}
		if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.controlPlane), now); err != nil {
			return flow.Failed(fmt.Errorf("read spec before it is recorded: %w", err))
		}
		if now.Generation != s.controlPlane.Generation {
			return flow.Waiting("the present spec of the KOKControlPlane to reach the cache")
		}
		err := r.Client.Create(ctx, made.DeepCopy(), client.FieldOwner(names.FieldManager))
		if apierrors.IsAlreadyExists(err) {
			return r.findSpec(ctx, s, made, err)
		}
		if err != nil {
			return flow.Failed(fmt.Errorf("record spec in ControllerRevision %s: %w", client.ObjectKeyFromObject(made), err))
		}
	}
	return flow.Failed(r.deleteOldSpecs(ctx, s))
}

// deleteOldSpecs deletes the revisions of spec of which there are too many.
func (r *Reconciler) deleteOldSpecs(ctx context.Context, s *scope) error {
	for i := range s.history.Delete {
		oldest := &s.history.Delete[i]
		if err := r.Client.Delete(ctx, oldest.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete old ControllerRevision %s: %w", client.ObjectKeyFromObject(oldest), err)
		}
	}
	return nil
}

// findSpec is for a revision that is there, and that the cache does not show: it is too new, or it lost its labels. The present spec
// is recorded when it has it.
func (r *Reconciler) findSpec(ctx context.Context, s *scope, made *appsv1.ControllerRevision, exists error) flow.Result {
	key, present := client.ObjectKeyFromObject(made), &appsv1.ControllerRevision{}
	if err := r.APIReader.Get(ctx, key, present); err != nil {
		return flow.Failed(fmt.Errorf("read ControllerRevision %s: %w", key, err))
	}
	if !history.IsOf(s.controlPlane, present) || present.Revision != made.Revision {
		return flow.Blocked(controlplanev1.ReconcileFailedReason, fmt.Errorf("spec cannot be recorded, and no component takes a change of it, for ControllerRevision %s is of somebody else: delete it", key))
	}
	if err := revision.Relabel(ctx, r.Client, present, made.Labels); err != nil {
		return flow.Failed(err)
	}
	wanted, err := history.Read(made)
	if err != nil {
		return flow.Failed(err)
	}
	// One that nobody can read is not the present spec: the next reconcile takes the next number.
	if found, err := history.Read(present); err != nil || found.Hash != wanted.Hash {
		return flow.Failed(fmt.Errorf("record spec: %w", exists))
	}
	return flow.Done()
}
