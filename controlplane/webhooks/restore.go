package webhooks

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// mostAhead is how far clocks of people may be ahead. Another restore must be later than the last one, so that a time far ahead would
// hold it up.
const mostAhead = 5 * time.Minute

// validateTemplateEtcd refuses what only one control plane can have.
func validateTemplateEtcd(spec controlplanev1.EtcdSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Restore != nil {
		errs = append(errs, field.Forbidden(path.Child("restore"), "a snapshot is that of one control plane, and a template is for many: remove it, and set spec.etcd.restore of one KOKControlPlane when you create it"))
	}
	if len(spec.GivenUp) > 0 {
		errs = append(errs, field.Forbidden(path.Child("givenUp"), "a member is that of one control plane, and a template is for many: remove it, and set spec.etcd.givenUp of one KOKControlPlane"))
	}
	if !spec.Events.FoundAnewAt.IsZero() {
		errs = append(errs, field.Forbidden(path.Child("events", "foundAnewAt"), "the etcd of one control plane is founded anew, and a template is for many: remove it, and set spec.etcd.events.foundAnewAt of one KOKControlPlane"))
	}
	return errs
}

var memberName = regexp.MustCompile(`^[a-z0-9][-a-z0-9.]*-` + names.EtcdData + `-[0-9]+$`)

// validateRestore refuses names that no member can have.
func validateRestore(spec controlplanev1.EtcdSpec, path *field.Path) field.ErrorList {
	const noMember = "is no member of a data etcd: they are named <cluster>-" + names.EtcdData + "-<number>, as their pods are"
	var errs field.ErrorList
	if restore := spec.Restore; restore != nil && restore.Survivor != "" && !memberName.MatchString(restore.Survivor) {
		errs = append(errs, field.Invalid(path.Child("restore", "survivor"), restore.Survivor, noMember))
	}
	for i, name := range spec.GivenUp {
		if !memberName.MatchString(name) {
			errs = append(errs, field.Invalid(path.Child("givenUp").Index(i), name, noMember))
		}
	}
	return errs
}

// validateFoundAnewChange refuses a time at which nothing could be founded, and one that is taken back: members know their etcd by it.
// The controller may have founded it anew by itself since the time in spec.
func validateFoundAnewChange(before *controlplanev1.KOKControlPlane, after controlplanev1.EtcdEventsSpec, now time.Time, path *field.Path) field.ErrorList {
	was, last, is := before.Spec.Etcd.Events.FoundAnewAt, etcdclusters.EventsFoundedAt(before), after.FoundAnewAt
	switch text := is.UTC().Format(time.RFC3339); {
	case is.Equal(&was):
	case is.IsZero():
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("cannot be taken away, for members know their etcd by it: leave %s there", was.UTC().Format(time.RFC3339)))}
	case after.Mode == controlplanev1.EtcdEventsInData:
		return field.ErrorList{field.Forbidden(path, "is for an etcd with events alone, and events.mode is InData: restore the data etcd, by spec.etcd.restore")}
	case !last.IsZero() && !is.After(last.Time):
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("must be later than %s, for members know their etcd by it: set it to the present time", last.UTC().Format(time.RFC3339)))}
	case is.After(now.Add(mostAhead)):
		return field.ErrorList{field.Invalid(path, text, "must have passed: set it to the present time")}
	}
	return nil
}

// validateRestoreChange refuses a restore that would never begin, or that is taken away before it has ended: etcd would begin without the
// snapshot, or the control plane would stay stopped. It also refuses an older request, such as one in a manifest from before.
func validateRestoreChange(before *controlplanev1.KOKControlPlane, after controlplanev1.EtcdSpec, now time.Time, path *field.Path) field.ErrorList {
	was, is := before.Spec.Etcd.Restore, after.Restore
	data := etcdclusters.Status(before, names.EtcdData)
	exists := etcdclusters.Bootstrapped(before, names.EtcdData) || data.Restoring != nil || conditions.IsTrue(before, conditionsv1.InitializedCondition)
	last, restoring := data.RestoredAt, data.Restoring
	var errs field.ErrorList
	switch {
	case is == nil && was == nil || is != nil && was != nil && *is == *was:
	case is == nil && !exists:
		errs = append(errs, field.Forbidden(path, "cannot be taken away before the snapshot is restored: etcd would begin without it; wait for the condition Initialized, or delete the control plane"))
	case is == nil && conditions.GetReason(before, conditionsv1.EtcdRecoveringCondition) == conditionsv1.RestoringReason:
		errs = append(errs, field.Forbidden(path, "cannot be taken away while etcd is restored in place, for the control plane has stopped: wait until the condition EtcdRecovering is false, or ask for another restore with a later requestedAt"))
	case is == nil:
	case is.RequestedAt.IsZero():
		errs = append(errs, field.Forbidden(path, "cannot be added without requestedAt to a control plane that exists: all that was written since the snapshot would be lost. Set requestedAt to the present time if you want that (`kok etcd restore-in-place` does), or create a new control plane with it, with the keys that `kok etcd restore` writes"))
	case !exists:
		errs = append(errs, field.Forbidden(path.Child("requestedAt"), "is for a control plane that has data, and this one has none yet: wait for the condition Initialized"))
	case !last.IsZero() && !is.RequestedAt.After(last.Time):
		errs = append(errs, field.Invalid(path.Child("requestedAt"), is.RequestedAt.UTC().Format(time.RFC3339), fmt.Sprintf("must be later than %s, when the restore was asked for that is over, or what was written since would be lost again: set it to the present time", last.UTC().Format(time.RFC3339))))
	case is.RequestedAt.After(now.Add(mostAhead)):
		errs = append(errs, field.Invalid(path.Child("requestedAt"), is.RequestedAt.UTC().Format(time.RFC3339), fmt.Sprintf("must not be later than in %s, or no other restore could follow: set it to the present time", mostAhead)))
	case restoring != nil && !is.RequestedAt.After(restoring.RequestedAt.Time) && !isUnderWay(is, restoring):
		errs = append(errs, field.Invalid(path.Child("requestedAt"), is.RequestedAt.UTC().Format(time.RFC3339), fmt.Sprintf("must be later than %s, when the restore was asked for that is under way, or it goes on as it began: set it to the present time", restoring.RequestedAt.UTC().Format(time.RFC3339))))
	}
	return errs
}

// isUnderWay reports whether a restore is the one that is under way.
func isUnderWay(asked *controlplanev1.EtcdRestoreSpec, restoring *controlplanev1.EtcdRestoringStatus) bool {
	return asked.RequestedAt.Equal(&restoring.RequestedAt) && asked.Snapshot == restoring.Snapshot && asked.Survivor == restoring.Survivor
}
