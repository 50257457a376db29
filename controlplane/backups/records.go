package backups

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// recordChanges are the changes that make the objects of snapshots say what the store has.
type recordChanges struct {
	// Create are new objects, without status: the next reconcile sets it. Update have another status. Delete are objects
	// that the controller made of snapshots that are gone.
	Create, Update, Delete []*controlplanev1.KOKEtcdSnapshot
}

// slotOfObject is the slot of the snapshot of an object: for one that shall be taken now, when the object was created.
func slotOfObject(snapshot *controlplanev1.KOKEtcdSnapshot) time.Time {
	if snapshot.Spec.Slot != "" {
		return slotOf(snapshot.Spec.Slot)
	}
	return snapshot.CreationTimestamp.UTC().Truncate(time.Second)
}

// stillNow is how long after its creation an object has a snapshot taken: members take none of an older slot.
const stillNow = 23 * time.Hour

// wantedSlots are the slots of which people want a snapshot that neither came nor was refused.
func wantedSlots(objects []controlplanev1.KOKEtcdSnapshot, now time.Time) []time.Time {
	var slots []time.Time
	for i := range objects {
		object := &objects[i]
		if isWanted(object) && now.Sub(slotOfObject(object)) < stillNow {
			slots = append(slots, slotOfObject(object))
		}
	}
	slices.SortFunc(slots, time.Time.Compare)
	return slots
}

// isWanted reports whether people want a snapshot that neither came nor was refused.
func isWanted(object *controlplanev1.KOKEtcdSnapshot) bool {
	return object.Spec.Slot == "" && object.Spec.Source == nil && object.DeletionTimestamp.IsZero() && conditions.Get(object, conditionsv1.SnapshotVerifiedCondition) == nil
}

// keepers is who keeps which snapshots on volumes of members.
type keepers struct {
	// kept are the slots of verified snapshots of each member that answered, by its name.
	kept map[string][]time.Time
	// silent are members that did not answer, or have not listed their stores yet: what they had is taken to be there.
	silent []string
	// nobody is true while no member answers: what each member had is taken to be there.
	nobody bool
}

// keepersOf finds which members keep which snapshots on volumes of their own. It finds none where members share a store.
func keepersOf(controlPlane *controlplanev1.KOKControlPlane, members []Member, answer Answer) keepers {
	k := keepers{nobody: answer.Err != ""}
	if !copied(controlPlane) {
		return k
	}
	k.kept = answer.Kept
	for _, m := range members {
		if _, answered := answer.Kept[m.Name]; !answered {
			k.silent = append(k.silent, m.Name)
		}
	}
	return k
}

// of are the members that keep a snapshot, sorted. before are those that kept it before.
func (k keepers) of(slot time.Time, before []string) []string {
	if k.nobody {
		return before
	}
	var names []string
	for name, slots := range k.kept {
		if slices.ContainsFunc(slots, slot.Equal) {
			names = append(names, name)
		}
	}
	for _, name := range before {
		if slices.Contains(k.silent, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// verifiedOn are the members that keep a verified snapshot on volumes of their own, in order.
func verifiedOn(objects []controlplanev1.KOKEtcdSnapshot) []string {
	var all []string
	for i := range objects {
		if o := &objects[i]; o.Spec.Source == nil && conditions.IsTrue(o, conditionsv1.SnapshotVerifiedCondition) {
			all = append(all, o.Status.Members...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reconciled compares the objects of a control plane with what members report. Nothing is deleted before the store was listed, nor while no
// member answers, or one that kept the snapshot is silent. Of a store with more snapshots than a report has, the oldest have no object.
func reconciled(controlPlane *controlplanev1.KOKControlPlane, objects []controlplanev1.KOKEtcdSnapshot, answer Answer, by keepers, now time.Time) recordChanges {
	var records recordChanges
	report := answer.Report
	if report == nil || report.Listed.IsZero() {
		records.Update = unlisted(objects, answer, now)
		return records
	}
	there := map[time.Time]*backup.Snapshot{}
	for i := range report.Snapshots {
		there[report.Snapshots[i].Slot.UTC()] = &report.Snapshots[i]
	}
	known := map[time.Time]bool{}
	for i := range objects {
		object := objects[i].DeepCopy()
		if object.Spec.ControlPlaneName != controlPlane.Name {
			continue
		}
		slot := slotOfObject(object)
		found := there[slot]
		if !object.DeletionTimestamp.IsZero() {
			// One that takes its snapshot along has no successor.
			known[slot] = known[slot] || found != nil && takesAlong(object)
			continue
		}
		known[slot] = known[slot] || found != nil
		switch {
		case found != nil:
			describe(object, found)
			object.Status.Members = by.of(slot, object.Status.Members)
		case len(by.of(slot, object.Status.Members)) > 0:
			object.Status.Members = by.of(slot, object.Status.Members)
		case ofController(controlPlane, object) && by.nobody:
			continue
		case ofController(controlPlane, object):
			records.Delete = append(records.Delete, object)
			continue
		default:
			missing(object, slot, answer, now)
		}
		if !equal(object.Status, objects[i].Status) {
			records.Update = append(records.Update, object)
		}
	}
	for i := range report.Snapshots {
		if slot := report.Snapshots[i].Slot.UTC(); !known[slot] {
			records.Create = append(records.Create, record(controlPlane, slot))
		}
	}
	return records
}

// unlisted are the objects of wanted snapshots while nobody has listed the store: they say why nobody takes the snapshot.
func unlisted(objects []controlplanev1.KOKEtcdSnapshot, answer Answer, now time.Time) []*controlplanev1.KOKEtcdSnapshot {
	var changed []*controlplanev1.KOKEtcdSnapshot
	if answer.Report == nil && answer.Err == "" {
		return changed // No member was asked yet.
	}
	for i := range objects {
		object := objects[i].DeepCopy()
		if !isWanted(object) || conditions.IsTrue(object, conditionsv1.SnapshotStoredCondition) {
			continue
		}
		if missing(object, slotOfObject(object), answer, now); !equal(object.Status, objects[i].Status) {
			changed = append(changed, object)
		}
	}
	return changed
}

// ofController reports whether the controller made an object, of a snapshot that the store had. One that asks for a snapshot after a rotation
// has no slot.
func ofController(controlPlane *controlplanev1.KOKControlPlane, object *controlplanev1.KOKEtcdSnapshot) bool {
	return object.Spec.Slot != "" || metav1.IsControlledBy(object, controlPlane) && conditions.Get(object, conditionsv1.SnapshotVerifiedCondition) != nil
}

// record is a new object of a snapshot.
func record(controlPlane *controlplanev1.KOKControlPlane, slot time.Time) *controlplanev1.KOKEtcdSnapshot {
	name := archive.SlotName(slot)
	return &controlplanev1.KOKEtcdSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane.Namespace, Name: controlPlane.Name + "-" + strings.ToLower(name)},
		Spec:       controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: controlPlane.Name, Slot: name},
	}
}

// refusals are the reasons by which members refuse snapshots.
var refusals = map[archive.Reason]string{
	archive.Truncated: conditionsv1.SnapshotTruncatedReason, archive.Tampered: conditionsv1.SnapshotTamperedReason,
	archive.Foreign: conditionsv1.SnapshotForeignReason, archive.TooNew: conditionsv1.SnapshotTooNewReason,
	archive.KeyMissing: conditionsv1.SnapshotKeyMissingReason, archive.HashDiffers: conditionsv1.SnapshotHashDiffersReason,
}

// describe sets the status by what the store has.
func describe(object *controlplanev1.KOKEtcdSnapshot, found *backup.Snapshot) {
	status := &object.Status
	status.Slot = archive.SlotName(found.Slot)
	if found.Reason != "" {
		reason, known := refusals[archive.Reason(found.Reason)]
		if !known {
			reason = conditionsv1.SnapshotTamperedReason
		}
		if found.Revision == 0 { // Else a trial refused what is there.
			set(object, conditionsv1.SnapshotStoredCondition, metav1.ConditionFalse, reason, found.Message)
		}
		set(object, conditionsv1.SnapshotVerifiedCondition, metav1.ConditionFalse, reason, found.Message)
		return
	}
	status.TenantUID, status.Revision, status.DatabaseBytes, status.StoredBytes = found.TenantUID, found.Revision, found.DatabaseBytes, found.StoredBytes
	status.SHA256, status.EtcdVersion, status.EncryptionKeyID = found.SHA256, found.EtcdVersion, found.EncryptionKeyID
	status.TakenAt = metav1.NewTime(found.Taken)
	set(object, conditionsv1.SnapshotStoredCondition, metav1.ConditionTrue, conditionsv1.SnapshotStoredReason, "")
	if found.Verified.IsZero() {
		return // Nobody has tried it yet.
	}
	status.VerifiedAt = metav1.NewTime(found.Verified)
	set(object, conditionsv1.SnapshotVerifiedCondition, metav1.ConditionTrue, conditionsv1.SnapshotVerifiedReason, "")
}

// missing says of a snapshot that somebody wants why it is not there.
func missing(object *controlplanev1.KOKEtcdSnapshot, slot time.Time, answer Answer, now time.Time) {
	object.Status.Slot = archive.SlotName(slot)
	if conditions.Get(object, conditionsv1.SnapshotVerifiedCondition) != nil {
		for _, condition := range []string{conditionsv1.SnapshotStoredCondition, conditionsv1.SnapshotVerifiedCondition} {
			set(object, condition, metav1.ConditionFalse, conditionsv1.SnapshotGoneReason, "it is not in its store any more")
		}
		return
	}
	reason, lines := whyMissing(slot, answer, now)
	set(object, conditionsv1.SnapshotStoredCondition, metav1.ConditionFalse, reason, strings.Join(lines, "\n"))
}

// whyMissing says why a snapshot that never came is not there yet. While members answer, it names those that do not.
func whyMissing(slot time.Time, answer Answer, now time.Time) (reason string, lines []string) {
	if now.Sub(slot) >= stillNow {
		return conditionsv1.SnapshotNotStoredReason, []string{"it could not be taken within a day: create another KOKEtcdSnapshot"}
	}
	if answer.Err != "" {
		// It passes, such as with one probe that fails, and a member may go on with what it was asked for.
		return conditionsv1.SnapshotTakingReason, []string{"it is being taken", answer.Err}
	}
	reason = conditionsv1.SnapshotNotStoredReason
	switch problem := answer.Problem; {
	case problem != nil && problem.Slot.Equal(slot):
		lines = append(lines, Text(problem))
	case answer.NotTaken[slot] != "":
		lines = append(lines, answer.NotTaken[slot])
	default:
		reason, lines = conditionsv1.SnapshotTakingReason, append(lines, "it is being taken")
		if problem != nil && problem.Slot.IsZero() { // It may be what the snapshot waits for.
			lines = append(lines, Text(problem))
		}
	}
	if silent := answer.whoIsSilent(); silent != "" {
		lines = append(lines, silent)
	}
	return reason, lines
}

func set(object *controlplanev1.KOKEtcdSnapshot, condition string, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(object, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message})
}

// equal compares statuses. Times have seconds.
func equal(a, b controlplanev1.KOKEtcdSnapshotStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}
