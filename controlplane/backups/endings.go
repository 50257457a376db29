package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// endings are changes of objects whose deletionPolicy is Delete. Such an object goes only when its snapshot is no longer stored.
type endings struct {
	// Hold get the finalizer, and Release lose it. Tell have another status.
	Hold, Release, Tell []*controlplanev1.KOKEtcdSnapshot
}

// endingsOf decides on the objects of a control plane. The text nobody says why the manager can ask no member. It is empty while the manager
// asks members.
func endingsOf(controlPlane *controlplanev1.KOKControlPlane, objects []controlplanev1.KOKEtcdSnapshot, answer Answer, by keepers, nobody string, now time.Time) endings {
	var all endings
	for i := range objects {
		object := objects[i].DeepCopy()
		held, deleted := controllerutil.ContainsFinalizer(object, controlplanev1.KOKEtcdSnapshotFinalizer), !object.DeletionTimestamp.IsZero()
		switch {
		case !held && !deleted && takesAlong(object):
			all.Hold = append(all.Hold, object)
		case held && !takesAlong(object):
			all.Release = append(all.Release, object)
		case held && deleted:
			reason, message := ending(controlPlane, object, answer, by, nobody, now)
			if reason == "" {
				all.Release = append(all.Release, object)
				continue
			}
			status := metav1.ConditionTrue
			if conditions.IsFalse(object, conditionsv1.SnapshotStoredCondition) {
				status = metav1.ConditionFalse
			}
			set(object, conditionsv1.SnapshotStoredCondition, status, reason, message)
			if !equal(object.Status, objects[i].Status) {
				all.Tell = append(all.Tell, object)
			}
		}
	}
	return all
}

// takesAlong reports whether the snapshot goes with its object. The store of a source is another one's.
func takesAlong(object *controlplanev1.KOKEtcdSnapshot) bool {
	return object.Spec.DeletionPolicy == controlplanev1.SnapshotDelete && object.Spec.Source == nil
}

// ending says what an object that is deleted waits for. The reason is empty when its store does not have the snapshot any more.
func ending(controlPlane *controlplanev1.KOKControlPlane, object *controlplanev1.KOKEtcdSnapshot, answer Answer, by keepers, nobody string, now time.Time) (reason, message string) {
	if nobody != "" {
		return conditionsv1.SnapshotDeletionRefusedReason, nobody + orRetain
	}
	report := answer.Report
	if report == nil || report.Listed.IsZero() || answer.Err != "" {
		return conditionsv1.SnapshotDeletingReason, cmp.Or(answer.Err, "no member tells what the store has") + orRetain
	}
	slot := slotOfObject(object)
	if !slices.ContainsFunc(report.Snapshots, func(s backup.Snapshot) bool { return s.Slot.Equal(slot) }) {
		if why := maybeThere(report, by, slot); why != "" {
			return conditionsv1.SnapshotDeletingReason, why + orRetain
		}
		return "", ""
	}
	if why := keptFor(controlPlane, object, report, now); why != "" {
		return conditionsv1.SnapshotDeletionRefusedReason, why + orRetain
	}
	switch failed := answer.NotDeleted[slot]; {
	case failed != "":
		return conditionsv1.SnapshotDeletingReason, failed + orRetain
	case report.Problem != nil && report.Problem.Slot.Equal(slot):
		return conditionsv1.SnapshotDeletingReason, Text(report.Problem) + orRetain
	}
	return conditionsv1.SnapshotDeletingReason, "a member deletes it in its store"
}

// maybeThere says why a store may have, or get, a snapshot that is not in a report; empty when it does not.
func maybeThere(report *backup.Report, by keepers, slot time.Time) string {
	if report.Working.Equal(slot) {
		return "it is being taken"
	}
	if len(by.silent) > 0 {
		return fmt.Sprintf("members %s have not told whether they have it", strings.Join(by.silent, ", "))
	}
	if report.More > 0 && !slices.ContainsFunc(report.Snapshots, func(s backup.Snapshot) bool { return s.Slot.Before(slot) }) {
		return fmt.Sprintf("members do not list the %d older snapshots of the store, and it may be one of them: keep fewer there", report.More)
	}
	return ""
}

// orRetain ends messages of objects that cannot end.
const orRetain = "; or set spec.deletionPolicy to Retain, and it stays in its store"

// keptFor says why a snapshot must stay, and what to do; empty when it may go.
func keptFor(controlPlane *controlplanev1.KOKControlPlane, object *controlplanev1.KOKEtcdSnapshot, report *backup.Report, now time.Time) string {
	if foundsAnew(controlPlane, object) {
		return fmt.Sprintf("the data etcd of KOKControlPlane %s is founded anew with it: wait until that is over", controlPlane.Name)
	}
	if restores(controlPlane, object) {
		return fmt.Sprintf("spec.etcd.restore.snapshot of KOKControlPlane %s names it: remove spec.etcd.restore there once the restore is over", controlPlane.Name)
	}
	if copied(controlPlane) && !isUnread(report, slotOfObject(object)) {
		return "members copy it from each other's volumes, and delete it when spec.etcd.backup.keep has them do so: keep fewer there"
	}
	switch backup.WhyKept(report.Snapshots, slotOfObject(object), now, report.Own) {
	case backup.KeptForeign:
		return "the tenant's keys do not read it, and it may be another tenant's: delete it in the store yourself"
	case backup.KeptNewest:
		return fmt.Sprintf("no newer snapshot is verified: take one with kok etcd snapshot %s --namespace %s", cmp.Or(controlPlane.Labels[clusterv1.ClusterNameLabel], controlPlane.Name), controlPlane.Namespace)
	}
	return ""
}

// restores reports whether the data etcd begins with a snapshot, or began with it last.
func restores(controlPlane *controlplanev1.KOKControlPlane, object *controlplanev1.KOKEtcdSnapshot) bool {
	return foundsAnew(controlPlane, object) || controlPlane.Spec.Etcd.Restore != nil && controlPlane.Spec.Etcd.Restore.Snapshot == object.Name
}

// foundsAnew reports whether the data etcd is being founded anew with a snapshot. The controller may have begun that by itself.
func foundsAnew(controlPlane *controlplanev1.KOKControlPlane, object *controlplanev1.KOKEtcdSnapshot) bool {
	return slices.ContainsFunc(controlPlane.Status.Etcd, func(s controlplanev1.EtcdClusterStatus) bool {
		return s.Restoring != nil && s.Restoring.Snapshot == object.Name
	})
}

// copied reports whether members keep snapshots on volumes of their own. What one of them deletes it would have again from another one.
func copied(controlPlane *controlplanev1.KOKControlPlane) bool {
	spec := controlPlane.Spec.Etcd.Backup
	return spec != nil && spec.Store.PerMember != nil
}

// unwantedSlots are the slots of snapshots that shall go with their objects.
func unwantedSlots(controlPlane *controlplanev1.KOKControlPlane, objects []controlplanev1.KOKEtcdSnapshot) []time.Time {
	var slots []time.Time
	for i := range objects {
		if o := &objects[i]; takesAlong(o) && !restores(controlPlane, o) && !o.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(o, controlplanev1.KOKEtcdSnapshotFinalizer) {
			slots = append(slots, slotOfObject(o))
		}
	}
	slices.SortFunc(slots, time.Time.Compare)
	return slots
}

// End sets the finalizers and the status of objects while the manager can ask no member. The text nobody says why.
func (k *Keeper) End(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane, nobody string) error {
	objects, err := k.records(ctx, client.ObjectKeyFromObject(controlPlane))
	if err != nil {
		return err
	}
	return k.keepEndings(ctx, endingsOf(controlPlane, objects, Answer{}, keepers{}, nobody, k.Clock.Now()))
}

// Release lets the objects of a control plane go that is deleted. Its snapshots stay.
func (k *Keeper) Release(ctx context.Context, controlPlane client.ObjectKey) error {
	objects, err := k.records(ctx, controlPlane)
	if err != nil {
		return err
	}
	var errs []error
	for i := range objects {
		errs = append(errs, k.holdRecord(ctx, &objects[i], false))
	}
	return errors.Join(errs...)
}

func (k *Keeper) keepEndings(ctx context.Context, all endings) error {
	var errs []error
	for _, object := range all.Hold {
		errs = append(errs, k.holdRecord(ctx, object, true))
	}
	for _, object := range all.Release {
		errs = append(errs, k.holdRecord(ctx, object, false))
	}
	return errors.Join(append(errs, k.describeRecords(ctx, all.Tell))...)
}

// holdRecord adds or removes the finalizer of an object.
func (k *Keeper) holdRecord(ctx context.Context, object *controlplanev1.KOKEtcdSnapshot, hold bool) error {
	if controllerutil.ContainsFinalizer(object, controlplanev1.KOKEtcdSnapshotFinalizer) == hold {
		return nil
	}
	changed := object.DeepCopy()
	if hold {
		controllerutil.AddFinalizer(changed, controlplanev1.KOKEtcdSnapshotFinalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, controlplanev1.KOKEtcdSnapshotFinalizer)
	}
	// Who else has a finalizer there keeps it: an older object in the cache gives a conflict.
	err := k.Client.Patch(ctx, changed, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the finalizer of KOKEtcdSnapshot %s: %w", object.Name, err)
	}
	return nil
}
