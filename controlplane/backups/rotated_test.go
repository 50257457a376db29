package backups

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// followingName is the name of the object that asks for a snapshot after a rotation that was over at five.
const followingName = "blue-rotated-20260304t050000z"

// asksAt is that object, as it was created at a time.
func asksAt(created time.Time) controlplanev1.KOKEtcdSnapshot {
	o := object("")
	o.Name, o.CreationTimestamp = followingName, metav1.NewTime(created)
	o.OwnerReferences = []metav1.OwnerReference{{UID: blue.UID, Controller: ptr.To(true)}}
	return o
}

func TestASnapshotFollowsARotation(t *testing.T) {
	of := &Facts{ControlPlane: blue, Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}}
	over := rotated{over: five, keyID: "new", keysID: "bundle"}
	dropping := over
	dropping.dropping = true
	with := func(keyID string) func(*backup.Snapshot) {
		return func(s *backup.Snapshot) { s.EncryptionKeyID = keyID }
	}
	listed := func(all ...backup.Snapshot) *backup.Report { return &backup.Report{Listed: six, Snapshots: all} }
	before := listed(stored(five.Add(-time.Hour), with("new")))
	has := []string{"bundle", "bundle"}
	for name, test := range map[string]struct {
		rotated rotated
		objects []controlplanev1.KOKEtcdSnapshot
		report  *backup.Report
		ids     []string
		err     string
		at      time.Time
		creates bool
		says    string
	}{
		"no key was rotated":                          {rotated: rotated{}, report: before, ids: has},
		"nobody was asked yet":                        {rotated: over},
		"nobody read the store yet":                   {rotated: over, report: &backup.Report{}, ids: has},
		"nobody answers any more":                     {rotated: over, report: before, ids: has, err: "connection refused"},
		"all are of before":                           {rotated: over, report: before, ids: has, creates: true, says: followingName},
		"there is none":                               {rotated: over, report: listed(), ids: has, creates: true, says: "ended at 2026-03-04T05:00:00Z"},
		"another key is being dropped":                {rotated: dropping, report: before, ids: has, says: "when the last former key is dropped"},
		"a member has the former keys":                {rotated: over, report: before, ids: []string{"bundle", "former"}, at: six, says: "have the present keys"},
		"an agent of an earlier release does not say": {rotated: over, report: before, ids: []string{"", "bundle"}, says: "have the present keys"},
		"... and had the time to read them":           {rotated: over, report: before, ids: []string{"", "bundle"}, at: six, creates: true, says: followingName},
		"it was asked for": {
			rotated: over, objects: []controlplanev1.KOKEtcdSnapshot{asksAt(five.Add(time.Second))}, report: before, ids: has, says: "take one with kok etcd snapshot blue --namespace team",
		},
		"... and another key is being dropped since": {
			rotated: dropping, objects: []controlplanev1.KOKEtcdSnapshot{asksAt(five.Add(time.Second))}, report: before, ids: has, says: followingName + " asks for it",
		},
		"another object is no request": {rotated: over, objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T040000Z")}, report: before, ids: has, creates: true, says: followingName},
		"one is there":                 {rotated: over, report: listed(stored(five, with("new"))), ids: has},
		"one is not verified yet":      {rotated: over, report: listed(stored(five, with("new"), unverified)), ids: has, creates: true, says: followingName},
		"one is refused":               {rotated: over, report: listed(stored(five, refused)), ids: has, creates: true, says: followingName},
		"one is of the former key":     {rotated: over, report: listed(stored(five, with("former"))), ids: has, creates: true, says: followingName},
		"the clock of the member that took it is late": {
			rotated: over, objects: []controlplanev1.KOKEtcdSnapshot{asksAt(five.Add(time.Second))}, ids: has,
			report: listed(stored(five.Add(time.Second), with("new"), func(s *backup.Snapshot) { s.Taken = five.Add(-time.Hour) })),
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := test.at
			if now.IsZero() {
				now = five.Add(time.Second)
			}
			got := followingOf(of, test.rotated, test.objects, Answer{Report: test.report, KeysIDs: test.ids, Err: test.err}, now)
			if (got.create != nil) != test.creates || (got.missing != "") != (test.says != "") || !strings.Contains(got.missing, test.says) {
				t.Fatalf("got %+v", got)
			}
			if o := got.create; o != nil && (o.Namespace != "team" || o.Name != followingName || o.Spec != (controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "blue"})) {
				t.Errorf("it creates %+v", o)
			}
		})
	}
}

func TestTheConditionTellsThatASnapshotIsMissing(t *testing.T) {
	got := Verdict(spec(), Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five)}}, Missing: "no verified snapshot was taken since"}, five.Add(time.Minute))
	if got.Status != metav1.ConditionTrue || !strings.HasSuffix(got.Message, "is verified\nno verified snapshot was taken since") {
		t.Errorf("got %+v", got)
	}
}

// The object that the controller makes after a rotation ends with its snapshot, as those of other snapshots do. One that a person made stays.
func TestWhatAsksForASnapshotGoesWithIt(t *testing.T) {
	asks, person := asksAt(five), asksAt(five)
	person.OwnerReferences = nil
	for name, test := range map[string]struct {
		object controlplanev1.KOKEtcdSnapshot
		had    bool
		by     keepers
		want   int
	}{
		"it is being taken":               {object: asks},
		"its snapshot is gone":            {object: asks, had: true, want: 1},
		"no member answers":               {object: asks, had: true, by: keepers{nobody: true}},
		"a person asked for the snapshot": {object: person, had: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.had {
				set(&test.object, conditionsv1.SnapshotVerifiedCondition, metav1.ConditionTrue, conditionsv1.SnapshotVerifiedReason, "")
			}
			got := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{test.object}, Answer{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six)}}}, test.by, six)
			if len(got.Delete) != test.want {
				t.Errorf("got %+v", got)
			}
			for _, o := range got.Update {
				if conditions.Get(o, conditionsv1.SnapshotStoredCondition) == nil {
					t.Errorf("it tells nothing: %+v", o.Status)
				}
			}
		})
	}
}
