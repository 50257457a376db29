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

// Writes writes the status of control planes. A control plane that is made goes through dozens of stages, and most of them change a message alone.
type Writes struct {
	// MessagesEvery is how long after a write of status the next one is put off if only messages changed; 0 writes each at once.
	MessagesEvery time.Duration

	lock sync.Mutex
	// last is when the status of each control plane was written last.
	last map[client.ObjectKey]time.Time
}

// Write writes what changed of a control plane since it was stored. Its spec counts as observed when the reconcile did all that it could.
// A write that is put off is to be tried again after later; later is 0 when nothing is left to write.
func (w *Writes) Write(ctx context.Context, helper *patch.Helper, stored, controlPlane *controlplanev1.KOKControlPlane, observed bool) (later time.Duration, err error) {
	key, options := client.ObjectKeyFromObject(controlPlane), []patch.Option{patch.WithOwnedConditions{Conditions: Owned}}
	if observed {
		if later := w.later(key, stored, controlPlane); later > 0 {
			return later, nil
		}
		options = append(options, patch.WithStatusObservedGeneration{})
	}
	err = helper.Patch(writes.Because(ctx, "status"), controlPlane, options...)
	if !controlPlane.DeletionTimestamp.IsZero() {
		err = kerrors.FilterOut(err, apierrors.IsNotFound)
	}
	if err != nil {
		return 0, fmt.Errorf("write the status: %w", err)
	}
	if !equality.Semantic.DeepEqual(stored, controlPlane) {
		w.note(key)
	}
	return 0, nil
}

// later is how long it is until messages alone are written; 0 when more than messages changed, nothing did, or it is time.
func (w *Writes) later(key client.ObjectKey, stored, controlPlane *controlplanev1.KOKControlPlane) time.Duration {
	w.lock.Lock()
	last, known := w.last[key]
	w.lock.Unlock()
	wait := w.MessagesEvery - time.Since(last)
	if !known || wait <= 0 || controlPlane.Status.ObservedGeneration != controlPlane.Generation ||
		!OnlyMessages(stored, controlPlane) || equality.Semantic.DeepEqual(stored, controlPlane) {
		return 0
	}
	return wait
}

// note keeps that the status of a control plane was written now.
func (w *Writes) note(key client.ObjectKey) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.last == nil {
		w.last = map[client.ObjectKey]time.Time{}
	}
	w.last[key] = time.Now()
}

// Forget drops what is known of a control plane that is gone.
func (w *Writes) Forget(controlPlane client.ObjectKey) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.last, controlPlane)
}

// NotOnlyMessages lets no change of messages alone wake the controller, which wrote them itself.
func NotOnlyMessages() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*controlplanev1.KOKControlPlane)
		after, isAfter := e.ObjectNew.(*controlplanev1.KOKControlPlane)
		return !isBefore || !isAfter || !OnlyMessages(before, after)
	}}
}
