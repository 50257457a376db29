package backups

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

func takenAlong(o *controlplanev1.KOKEtcdSnapshot) {
	o.Spec.DeletionPolicy = controlplanev1.SnapshotDelete
}

func held(o *controlplanev1.KOKEtcdSnapshot) {
	o.Finalizers = append(o.Finalizers, controlplanev1.KOKEtcdSnapshotFinalizer)
}

func deleted(o *controlplanev1.KOKEtcdSnapshot) { o.DeletionTimestamp = ptr.To(metav1.NewTime(six)) }

func TestSnapshotsGoWithTheirObjects(t *testing.T) {
	type edits = []func(*controlplanev1.KOKEtcdSnapshot)
	answer := func(snapshots ...backup.Snapshot) Answer {
		return Answer{Report: &backup.Report{Listed: six, Snapshots: snapshots}}
	}
	owned := func(snapshots ...backup.Snapshot) Answer {
		own := answer(snapshots...)
		own.Own = true
		return own
	}
	toldBy := func(members ...string) Answer {
		own := owned(stored(six))
		own.Kept = map[string][]time.Time{}
		for _, m := range members {
			own.Kept[m] = []time.Time{six}
		}
		return own
	}
	silentMember := toldBy("m-0", "m-1")
	silentMember.Silent = map[string]string{"m-2": "it does not answer"}
	silent := answer(stored(six), stored(five))
	silent.Err = "connection refused"
	old := answer(stored(six), stored(five))
	old.NotDeleted = map[time.Time]string{five: "it is of an earlier release"}
	denied := answer(stored(six), stored(five))
	denied.Problem = &backup.Problem{Slot: five, Field: "store.s3.credentialsRef", Message: "access is denied"}
	gone := edits{takenAlong, held, deleted}
	restoring := blue.DeepCopy()
	restoring.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "a"}
	foundAnew := blue.DeepCopy()
	foundAnew.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Restoring: &controlplanev1.EtcdRestoringStatus{Snapshot: "a"}}}
	newestAlone := answer(stored(six))
	newestAlone.More = 1
	listedTo := answer(stored(six), stored(five.Add(-time.Hour)))
	listedTo.More = 1
	taking := answer(stored(six))
	taking.Working = five
	for name, test := range map[string]struct {
		edits         edits
		of            *controlplanev1.KOKControlPlane
		answer        Answer
		nobody        string
		hold, release bool
		reason, says  string
		// asked is whether members are asked to delete the snapshot.
		asked bool
	}{
		"one that stays":                                    {answer: answer(stored(five))},
		"one that shall go is held before":                  {edits: edits{takenAlong}, answer: answer(stored(five)), hold: true},
		"once":                                              {edits: edits{takenAlong, held}, answer: answer(stored(five))},
		"it shall stay after all":                           {edits: edits{held}, answer: answer(stored(five)), release: true},
		"also when it is deleted already":                   {edits: edits{held, deleted}, answer: answer(stored(five)), release: true},
		"and nobody can be asked":                           {edits: edits{held, deleted}, nobody: "no member", release: true},
		"it was deleted before it was held":                 {edits: edits{takenAlong, deleted}, answer: answer(stored(six), stored(five))},
		"it goes":                                           {edits: gone, answer: answer(stored(six), stored(five)), reason: "Deleting", says: "a member deletes it", asked: true},
		"it was never verified, and goes":                   {edits: gone, answer: answer(stored(six), stored(five, unverified)), reason: "Deleting", says: "a member deletes it", asked: true},
		"it is gone":                                        {edits: gone, answer: answer(stored(six)), release: true},
		"it may be older than what is listed":               {edits: gone, answer: newestAlone, reason: "Deleting", says: "1 older snapshots"},
		"it is gone from within the list":                   {edits: gone, answer: listedTo, release: true},
		"it is being taken":                                 {edits: gone, answer: taking, reason: "Deleting", says: "it is being taken"},
		"one that the data etcd is founded anew from stays": {edits: gone, of: foundAnew, answer: answer(stored(six), stored(five)), reason: "DeletionRefused", says: "KOKControlPlane blue is founded anew with it"},
		"nobody has read the store":                         {edits: gone, answer: Answer{Report: &backup.Report{}}, reason: "Deleting", says: "no member tells"},
		"nobody was asked yet":                              {edits: gone, reason: "Deleting", says: "no member tells"},
		"nobody answers any more":                           {edits: gone, answer: silent, reason: "Deleting", says: "connection refused", asked: true},
		"agents are of an earlier release":                  {edits: gone, answer: old, reason: "Deleting", says: "earlier release", asked: true},
		"the store refuses":                                 {edits: gone, answer: denied, reason: "Deleting", says: "store.s3.credentialsRef: access is denied", asked: true},
		"there are no backups any more":                     {edits: gone, nobody: "spec.etcd.backup is not set", reason: "DeletionRefused", says: "spec.etcd.backup is not set; or set spec.deletionPolicy to Retain"},
		"the last one stays":                                {edits: gone, answer: answer(stored(five)), reason: "DeletionRefused", says: "kok etcd snapshot blue --namespace team; or set spec.deletionPolicy to Retain"},
		"the newest verified one stays":                     {edits: gone, answer: answer(stored(six, unverified), stored(five), stored(five.Add(-time.Hour))), reason: "DeletionRefused", says: "no newer snapshot is verified"},
		"one that nobody can read stays":                    {edits: gone, answer: answer(stored(six), stored(five, refused)), reason: "DeletionRefused", says: "delete it in the store yourself"},
		"one that a restore begins with stays":              {edits: gone, of: restoring, answer: answer(stored(six), stored(five)), reason: "DeletionRefused", says: "spec.etcd.restore.snapshot of KOKControlPlane blue names it"},
		"members keep their own":                            {edits: gone, of: perMember(), answer: owned(stored(six), stored(five)), reason: "DeletionRefused", says: "members copy it from each other's volumes"},
		"members keep their own, which nobody can read":     {edits: gone, of: perMember(), answer: owned(stored(six), stored(five, refused)), reason: "Deleting", says: "a member deletes it", asked: true},
		"the same, and no newer one is verified":            {edits: gone, of: perMember(), answer: owned(stored(six, unverified), stored(five, refused)), reason: "DeletionRefused", says: "no newer snapshot is verified"},
		"it is gone from the volumes of all":                {edits: gone, of: perMember(), answer: toldBy("m-0", "m-1", "m-2"), release: true},
		"a silent member may have it":                       {edits: gone, of: perMember(), answer: silentMember, reason: "Deleting", says: "members m-2 have not told whether they have it; or set spec.deletionPolicy to Retain"},
		"members that listed nothing yet may have it":       {edits: gone, of: perMember(), answer: toldBy("m-1"), reason: "Deleting", says: "members m-0, m-2 have not told whether they have it"},
		"the same, and it shall stay":                       {edits: edits{held, deleted}, of: perMember(), answer: toldBy("m-1"), release: true},
		"a silent member keeps nothing where all share":     {edits: gone, answer: Answer{Report: answer(stored(six)).Report, Silent: silentMember.Silent}, release: true},
		"an imported one is of another one's store":         {edits: append(edits{func(o *controlplanev1.KOKEtcdSnapshot) { o.Spec.Source = &controlplanev1.EtcdSnapshotSource{} }}, takenAlong), answer: answer(stored(six), stored(five))},
		"also when somebody held it, and deletes it":        {edits: append(edits{func(o *controlplanev1.KOKEtcdSnapshot) { o.Spec.Source = &controlplanev1.EtcdSnapshotSource{} }}, gone...), answer: answer(stored(six), stored(five)), release: true},
	} {
		t.Run(name, func(t *testing.T) {
			of := test.of
			if of == nil {
				of = blue
			}
			one := []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z", test.edits...)}
			by := keepersOf(of, []Member{{Name: "m-0"}, {Name: "m-1"}, {Name: "m-2"}}, test.answer)
			got := endingsOf(of, one, test.answer, by, test.nobody, six)
			if (len(got.Hold) > 0) != test.hold || (len(got.Release) > 0) != test.release || (len(got.Tell) > 0) != (test.reason != "") {
				t.Fatalf("got %+v", got)
			}
			if report := test.answer.Report; report != nil {
				if asked := mayGo(unwantedSlots(of, one), report, six); slices.Equal(asked, []time.Time{five}) != test.asked || len(asked) > 1 {
					t.Errorf("members are asked to delete %v", asked)
				}
			}
			if test.reason == "" {
				return
			}
			told := got.Tell[0]
			if reason, message := conditions.GetReason(told, conditionsv1.SnapshotStoredCondition), conditions.GetMessage(told, conditionsv1.SnapshotStoredCondition); reason != test.reason || !strings.Contains(message, test.says) {
				t.Errorf("it says %s: %s", reason, message)
			}
			if again := endingsOf(of, []controlplanev1.KOKEtcdSnapshot{*told}, test.answer, by, test.nobody, six); len(again.Tell) > 0 {
				t.Error("it is told twice")
			}
			// It has no successor while it is there.
			if changes := reconciled(of, []controlplanev1.KOKEtcdSnapshot{*told}, test.answer, keepers{}, six); slices.ContainsFunc(changes.Create, func(o *controlplanev1.KOKEtcdSnapshot) bool { return o.Spec.Slot == "20260304T050000Z" }) {
				t.Error("it is made again")
			}
		})
	}
}
