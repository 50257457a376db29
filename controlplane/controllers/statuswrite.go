package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// textsWait is how long the status of a control plane is not written yet, because only messages changed and the last write was a moment ago; 0
// when it is written now.
func (r *Reconciler) textsWait(stored, controlPlane *controlplanev1.KOKControlPlane) time.Duration {
	if controlPlane.Status.ObservedGeneration != controlPlane.Generation || !status.OnlyTexts(stored, controlPlane) || equality.Semantic.DeepEqual(stored, controlPlane) {
		return 0
	}
	return max(0, r.statusWrites.until(client.ObjectKeyFromObject(controlPlane), r.TextsEvery))
}

// writeStatus writes what changed of a control plane. Its spec counts as observed when the reconcile did all that it could.
func (r *Reconciler) writeStatus(ctx context.Context, helper *patch.Helper, stored, controlPlane *controlplanev1.KOKControlPlane, observed bool) error {
	options := []patch.Option{patch.WithOwnedConditions{Conditions: status.Owned}}
	if observed {
		options = append(options, patch.WithStatusObservedGeneration{})
	}
	err := helper.Patch(writes.Because(ctx, "status"), controlPlane, options...)
	if !controlPlane.DeletionTimestamp.IsZero() {
		err = kerrors.FilterOut(err, apierrors.IsNotFound)
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if !equality.Semantic.DeepEqual(stored, controlPlane) {
		r.statusWrites.note(client.ObjectKeyFromObject(controlPlane))
	}
	return nil
}

// statusWrites says when the status of control planes was written last. A control plane that is made goes through dozens of stages, one
// message each: where only messages changed, status is written once in a while.
type statusWrites struct {
	lock sync.Mutex
	last map[client.ObjectKey]time.Time
}

// note keeps that a status was written now.
func (w *statusWrites) note(of client.ObjectKey) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.last == nil {
		w.last = map[client.ObjectKey]time.Time{}
	}
	w.last[of] = time.Now()
}

// forget drops what is known of a control plane that is gone.
func (w *statusWrites) forget(of client.ObjectKey) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.last, of)
}

// until is how long it is until the last write of a status is as long ago as that; not more than 0 when it is.
func (w *statusWrites) until(of client.ObjectKey, ago time.Duration) time.Duration {
	w.lock.Lock()
	defer w.lock.Unlock()
	last, known := w.last[of]
	if !known {
		return 0
	}
	return ago - time.Since(last)
}

// notOnlyTexts lets no change of messages wake the controller: it wrote them itself.
func notOnlyTexts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*controlplanev1.KOKControlPlane)
		after, isAfter := e.ObjectNew.(*controlplanev1.KOKControlPlane)
		return !isBefore || !isAfter || !status.OnlyTexts(before, after)
	}}
}
