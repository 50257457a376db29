package status

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
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// Writes writes the status of control planes. A control plane that is made goes through dozens of stages, one message each: where only messages
// changed, status is written once in a while.
type Writes struct {
	lock sync.Mutex
	// last is when each control plane was written last.
	last map[client.ObjectKey]time.Time
}

// Wait is how long the status of a control plane is not written yet, because only messages changed and the last write is not as long ago as
// every; 0 when it is written now.
func (w *Writes) Wait(stored, controlPlane *controlplanev1.KOKControlPlane, every time.Duration) time.Duration {
	if controlPlane.Status.ObservedGeneration != controlPlane.Generation || !OnlyTexts(stored, controlPlane) || equality.Semantic.DeepEqual(stored, controlPlane) {
		return 0
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	last, known := w.last[client.ObjectKeyFromObject(controlPlane)]
	if !known {
		return 0
	}
	return max(0, every-time.Since(last))
}

// Write writes what changed of a control plane. Its spec counts as observed when the reconcile did all that it could.
func (w *Writes) Write(ctx context.Context, helper *patch.Helper, stored, controlPlane *controlplanev1.KOKControlPlane, observed bool) error {
	options := []patch.Option{patch.WithOwnedConditions{Conditions: Owned}}
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
	if equality.Semantic.DeepEqual(stored, controlPlane) {
		return nil
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.last == nil {
		w.last = map[client.ObjectKey]time.Time{}
	}
	w.last[client.ObjectKeyFromObject(controlPlane)] = time.Now()
	return nil
}

// Forget drops what is known of a control plane that is gone.
func (w *Writes) Forget(controlPlane client.ObjectKey) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.last, controlPlane)
}

// NotOnlyTexts lets no change of messages alone wake the controller, which wrote them itself.
func NotOnlyTexts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*controlplanev1.KOKControlPlane)
		after, isAfter := e.ObjectNew.(*controlplanev1.KOKControlPlane)
		return !isBefore || !isAfter || !OnlyTexts(before, after)
	}}
}
