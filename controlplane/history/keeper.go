package history

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// Keeper keeps the revisions of spec in the management cluster.
type Keeper struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

// Decide is the function Decide, with revisions of spec from a cache. If stored renderings name revisions, which the cache then lacks, it takes
// those of the API server.
func (k *Keeper) Decide(ctx context.Context, in Input) (Decision, error) {
	if len(in.Named) > 0 {
		// The cache may be late, and a revision without the one before it would have no way back.
		live, err := List(ctx, k.Live, in.Cluster)
		if err != nil {
			return Decision{}, err
		}
		in.Known = Of(in.ControlPlane, live)
	}
	decision, err := Decide(in)
	if err != nil {
		return Decision{}, fmt.Errorf("decide on the history of spec: %w", err)
	}
	return decision, nil
}

// Record makes the revision of a changed spec, before any component adopts the change, and deletes the oldest ones.
func (k *Keeper) Record(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane, decision *Decision) flow.Result {
	if made := decision.Make; made != nil {
		// A cache that lags behind shows an earlier spec, which has its revision.
		now := &controlplanev1.KOKControlPlane{}
		if err := k.Live.Get(ctx, client.ObjectKeyFromObject(controlPlane), now); err != nil {
			return flow.Failed(fmt.Errorf("read spec before it is recorded: %w", err))
		}
		if now.Generation != controlPlane.Generation {
			return flow.Waiting("the present spec of the KOKControlPlane to reach the cache")
		}
		err := k.Client.Create(ctx, made.DeepCopy(), client.FieldOwner(names.FieldManager))
		if apierrors.IsAlreadyExists(err) {
			return k.findSpec(ctx, controlPlane, made, err)
		}
		if err != nil {
			return flow.Failed(fmt.Errorf("record spec in ControllerRevision %s: %w", client.ObjectKeyFromObject(made), err))
		}
	}
	return flow.DoneOrFailed(k.deleteOldSpecs(ctx, decision))
}

// deleteOldSpecs deletes the revisions of spec of which there are too many.
func (k *Keeper) deleteOldSpecs(ctx context.Context, decision *Decision) error {
	for i := range decision.Delete {
		oldest := &decision.Delete[i]
		if err := k.Client.Delete(ctx, oldest.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete old ControllerRevision %s: %w", client.ObjectKeyFromObject(oldest), err)
		}
	}
	return nil
}

// findSpec is for a revision that is there, and that the cache does not show: it is too new, or it lost its labels. The present spec
// is recorded when it has it.
func (k *Keeper) findSpec(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane, made *appsv1.ControllerRevision, exists error) flow.Result {
	key, present := client.ObjectKeyFromObject(made), &appsv1.ControllerRevision{}
	if err := k.Live.Get(ctx, key, present); err != nil {
		return flow.Failed(fmt.Errorf("read ControllerRevision %s: %w", key, err))
	}
	if !IsOf(controlPlane, present) || present.Revision != made.Revision {
		return flow.Blocked(conditionsv1.ReconcileFailedReason, fmt.Errorf("spec cannot be recorded, and no component takes a change of it, for ControllerRevision %s is of somebody else: delete it", key))
	}
	if err := revision.Relabel(ctx, k.Client, present, made.Labels); err != nil {
		return flow.Failed(err)
	}
	wanted, err := Read(made)
	if err != nil {
		return flow.Failed(err)
	}
	// A revision that cannot be read is not the present spec: the next reconcile takes the next number.
	if found, err := Read(present); err != nil || found.Hash != wanted.Hash {
		return flow.Failed(fmt.Errorf("record spec: %w", exists))
	}
	return flow.Done()
}
