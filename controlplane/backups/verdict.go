package backups

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Seen is what is known of the backup of a tenant.
type Seen struct {
	// Problem is what keeps members from being told how; empty for nothing.
	Problem string
	// Report is what a member said last, and Err why none did; both are empty before the first time.
	Report *backup.Report
	Err    string
	// Silent names members that do not answer while others do. It is empty when all answer.
	Silent string
	// Missing tells people that no verified snapshot was taken since the last rotation of keys ended. It is empty if one was, or if nobody knows.
	Missing string
	// Unread are the names of the objects of snapshots that no member can read, where these are on volumes of members.
	Unread []string
}

// Newest finds the newest verified snapshot of a report. It leaves out snapshots in the future, and returns nil when there is no other.
func Newest(report *backup.Report, now time.Time) *backup.Snapshot {
	if report == nil {
		return nil
	}
	var newest *backup.Snapshot
	for i := range report.Snapshots {
		s := &report.Snapshots[i]
		if s.Reason == "" && !s.Verified.IsZero() && !archive.IsInFuture(s.Slot, now) && (newest == nil || s.Slot.After(newest.Slot)) {
			newest = s
		}
	}
	return newest
}

// NewestStatus is the newest verified snapshot for the status of a control plane. It is the one of before while members do not tell.
func NewestStatus(seen Seen, before *controlplanev1.NewestSnapshotStatus, now time.Time) *controlplanev1.NewestSnapshotStatus {
	if seen.Report == nil || seen.Report.Listed.IsZero() {
		return before
	}
	newest := Newest(seen.Report, now)
	if newest == nil {
		return nil
	}
	stored := newest.StoredBytes
	return &controlplanev1.NewestSnapshotStatus{TakenAt: metav1.NewTime(newest.Taken.Truncate(time.Second)), StoredBytes: &stored}
}

// besideData says what a store on volumes of members does not help against.
const besideData = "snapshots are on the host nodes of the data (spec.etcd.backup.store.perMember): whoever loses those loses both, and both are deleted with the control plane"

// Verdict is the condition EtcdBackedUp. Its text changes with a snapshot, and not with its age.
func Verdict(spec *controlplanev1.EtcdBackupSpec, seen Seen, now time.Time) metav1.Condition {
	condition := verdict(spec, seen, now)
	if seen.Missing != "" {
		condition.Message += "\n" + seen.Missing
	}
	if text := inFuture(seen.Report, now); text != "" {
		condition.Message += "\n" + text
	}
	if text := makesRoom(seen); text != "" {
		condition.Message += "\n" + text
	}
	if spec.Store.PerMember != nil {
		condition.Message += "\n" + besideData
	}
	return condition
}

func verdict(spec *controlplanev1.EtcdBackupSpec, seen Seen, now time.Time) metav1.Condition {
	says := func(status metav1.ConditionStatus, reason string, lines ...string) metav1.Condition {
		return metav1.Condition{Type: conditionsv1.EtcdBackedUpCondition, Status: status, Reason: reason, Message: strings.Join(lines, "\n")}
	}
	var problems []string
	if seen.Problem != "" {
		problems = append(problems, seen.Problem)
	}
	if seen.Report != nil && seen.Report.Problem != nil {
		problems = append(problems, Text(seen.Report.Problem))
	}
	if seen.Report != nil && seen.Report.Listed.IsZero() && len(problems) == 0 {
		seen.Report = nil // The member has not read its store yet.
	}
	newest := Newest(seen.Report, now)
	tooOld := []string{newestLine(newest, spec)}
	if seen.Silent != "" {
		tooOld = append(tooOld, seen.Silent) // One of them may be on duty.
	}
	switch {
	case seen.Report == nil && seen.Err == "" && len(problems) == 0:
		return says(metav1.ConditionUnknown, conditionsv1.HealthUnknownReason, "no member has told of its snapshots yet")
	case seen.Report == nil && len(problems) == 0:
		return says(metav1.ConditionUnknown, conditionsv1.HealthUnknownReason, seen.Err)
	case newest != nil && now.Sub(newest.Taken) <= maxAge(spec):
		lines := append([]string{fmt.Sprintf("snapshot %s is verified", archive.SlotName(newest.Slot))}, problems...)
		return says(metav1.ConditionTrue, conditionsv1.BackedUpReason, lines...)
	case seen.Err != "" && seen.Problem == "":
		// Members may go on.
		return says(metav1.ConditionUnknown, conditionsv1.HealthUnknownReason, seen.Err, newestLine(newest, spec))
	case len(problems) > 0:
		return says(metav1.ConditionFalse, conditionsv1.StoreUnreachableReason, append(problems, tooOld...)...)
	}
	return says(metav1.ConditionFalse, conditionsv1.BackupTooOldReason, tooOld...)
}

// inFuture names a snapshot in the future, and says what a person does about it. It returns "" when no snapshot is in the future.
func inFuture(report *backup.Report, now time.Time) string {
	if report == nil {
		return ""
	}
	for _, s := range report.Snapshots {
		if archive.IsInFuture(s.Slot, now) {
			return fmt.Sprintf("snapshot %s is in the future, and is ignored until then: its host node had a wrong clock, set that right",
				archive.SlotName(s.Slot))
		}
	}
	return ""
}

// mostNamed bounds the names of snapshots in a message.
const mostNamed = 10

// makesRoom says what a person may delete from a full volume of a member beside what keep counts; empty when no volume is full, or nothing
// else is there.
func makesRoom(seen Seen) string {
	if seen.Report == nil || seen.Report.Problem == nil || !seen.Report.Problem.Full || len(seen.Unread) == 0 {
		return ""
	}
	named, more := seen.Unread, ""
	if rest := len(named) - mostNamed; rest > 0 {
		named, more = named[:mostNamed], fmt.Sprintf(" and %d more", rest)
	}
	return fmt.Sprintf("spec.etcd.backup.keep does not delete snapshots that members cannot read, such as those from before a rotation of the encryption key: "+
		"to make room, set spec.deletionPolicy to Delete on those that nobody needs, and delete them: KOKEtcdSnapshots %s%s", strings.Join(named, ", "), more)
}

func newestLine(newest *backup.Snapshot, spec *controlplanev1.EtcdBackupSpec) string {
	if newest == nil {
		return "no snapshot is verified yet"
	}
	return fmt.Sprintf("the newest verified snapshot is %s, which is older than spec.etcd.backup.maxAge, %v", archive.SlotName(newest.Slot), maxAge(spec))
}

// Text is a problem for people.
func Text(p *backup.Problem) string {
	said := p.Message
	if p.Reason != "" && !strings.HasPrefix(said, p.Reason) {
		said = p.Reason + ": " + said
	}
	if p.Field != "" && !strings.Contains(said, p.Field) {
		said = p.Field + ": " + said
	}
	return errortext.SteadyText(said)
}
