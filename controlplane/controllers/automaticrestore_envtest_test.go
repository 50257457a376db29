//go:build envtest

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Whenever the manager is killed, etcd is founded anew once, from the one member that has its data.
func TestEtcdIsFoundedAnewFromASurvivorByItself(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return losing(t, 3, controlplanev1.EtcdRecoversFromSurvivor) }, func(tt *tenantTest) {
		tt.wipe("blue-etcd-data-0", "blue-etcd-data-1")
		tt.settleThroughFaults()
		tt.expectFoundedByItself(rebuild.Ask{Survivor: "blue-etcd-data-2"})
	})
}

// Whenever the manager is killed, etcd is founded anew once, from the newest verified snapshot. A person who forbids it meanwhile does not
// leave it half done.
func TestEtcdIsFoundedAnewFromASnapshotByItself(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return losing(t, 1, controlplanev1.EtcdRecoversAutomatically) }, func(tt *tenantTest) {
		tt.wipe("blue-etcd-data-0")
		forbidden := false
		tt.host.broken = func(*corev1.Pod) bool { // It is asked between reconciles.
			if !forbidden && tt.record().UnderWay() {
				forbidden = true
				edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Recovery = "" })
			}
			return false
		}
		tt.settleThroughFaults()
		tt.expectRestored(tt.expectFoundedByItself(rebuild.Ask{Snapshot: "snapshot"}))
	})
}

// Whenever the manager is killed, etcd that cannot begin with the newest snapshot begins with the next older one, and tries none twice.
func TestEtcdIsFoundedAnewFromAnOlderSnapshotByItself(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return losing(t, 1, controlplanev1.EtcdRecoversAutomatically) }, func(tt *tenantTest) {
		tt.addSnapshot("older", "20260303T050000Z")
		tt.addSnapshot("oldest", "20260302T050000Z")
		tt.refuse(map[string]string{"20260304T050000Z": "HashDiffers: it is not what the member had", "20260303T050000Z": "NotFound: it is not in the store"})
		tt.wipe("blue-etcd-data-0")
		tt.settleThroughFaults()
		record := tt.record()
		tried := []rebuild.Try{{Snapshot: "snapshot", Member: "blue-etcd-data-0"}, {Snapshot: "older", Member: "blue-etcd-data-0"}}
		if !record.Automatic || record.Begins == nil || *record.Begins != (rebuild.Ask{Snapshot: "oldest"}) || record.Phase != rebuild.Over || !slices.Equal(record.Tried, tried) {
			tt.t.Fatalf("the record is %+v of %+v: %+v", record, record.Begins, tt.controlPlane().Status.Conditions)
		}
		for name, made := range tt.host.made {
			want := madeAfterRestore(name)
			if name == "blue-etcd-data-0" {
				want += len(tried)
			}
			if made != want {
				tt.t.Errorf("pod %s was made %d times, want %d", name, made, want)
			}
		}
		at, err := time.Parse(time.RFC3339, record.Restore)
		if err != nil {
			tt.t.Fatal(err)
		}
		tt.expectRestored(metav1.NewTime(at))
	})
}

// A restore that has begun needs the snapshot in the store, and not its object.
func TestARestoreGoesOnWithoutTheObjectOfItsSnapshot(t *testing.T) {
	t.Parallel()
	tt := losing(t, 1, controlplanev1.EtcdRecoversAutomatically)
	tt.wipe("blue-etcd-data-0")
	deleted := false
	tt.host.broken = func(*corev1.Pod) bool { // It is asked between reconciles.
		if !deleted && tt.record().UnderWay() {
			deleted = true
			snapshot := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "snapshot"}}
			if err := environment.Client.Delete(t.Context(), snapshot); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	tt.settle()
	if !deleted {
		t.Error("the object was not deleted")
	}
	tt.expectRestored(tt.expectFoundedByItself(rebuild.Ask{Snapshot: "snapshot"}))
}

// Where etcd can begin with no snapshot, people are told which were tried, and why the last one failed. What a person names is taken then.
func TestPeopleAreToldWhichSnapshotsWereTried(t *testing.T) {
	t.Parallel()
	tt := losing(t, 1, controlplanev1.EtcdRecoversAutomatically)
	tt.addSnapshot("older", "20260303T050000Z")
	refused := map[string]string{"20260304T050000Z": "HashDiffers: it is not what the member had", "20260303T050000Z": "Truncated: its end is missing"}
	tt.refuse(refused)
	tt.wipe("blue-etcd-data-0")
	tt.settle()
	message := conditions.GetMessage(tt.controlPlane(), conditionsv1.EtcdRecoveringCondition)
	for _, says := range []string{"member blue-etcd-data-0 cannot begin with the KOKEtcdSnapshot older", "Truncated: its end is missing", "snapshot at blue-etcd-data-0", "spec.etcd.restore"} {
		if !strings.Contains(message, says) {
			t.Errorf("EtcdRecovering says %q, and not %q", message, says)
		}
	}
	if record := tt.record(); record.Phase != rebuild.Founding || record.Begins.Snapshot != "older" {
		t.Errorf("the record is %+v", record)
	}
	delete(refused, "20260304T050000Z")
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		at, err := time.Parse(time.RFC3339, tt.record().Restore)
		if err != nil {
			t.Fatal(err)
		}
		c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot", RequestedAt: metav1.NewTime(at.Add(time.Second))}
	})
	tt.settle()
	tt.expectRestored(tt.controlPlane().Spec.Etcd.Restore.RequestedAt)
}

// refuse has prepare fail to restore the snapshots of some slots, with a reason for each.
func (tt *tenantTest) refuse(slots map[string]string) {
	tt.host.refuses = func(pod *corev1.Pod) string {
		if !strings.Contains(pod.Name, names.EtcdData) {
			return ""
		}
		seed, err := backup.DecodeSeed(tt.backupFiles()[backup.SeedFile])
		if err != nil || pod.Name != seed.Member {
			return ""
		}
		return slots[archive.SlotName(seed.Slot)]
	}
}

// Nothing is given up that may come back, that spec does not allow, or soon after the last time.
func TestEtcdIsNotFoundedAnewByItselfWithoutNeed(t *testing.T) {
	t.Parallel()
	foundNothingAnew(t, losing, []noNeed{
		{"spec does not say so", "", func(tt *tenantTest) { tt.wipe("blue-etcd-data-0", "blue-etcd-data-1") }, ""},
		{"the events wait for a person, and members of the data were given up once", controlplanev1.EtcdRecoversFromSurvivor, func(tt *tenantTest) {
			edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
				c.Spec.Etcd.GivenUp = []string{"blue-etcd-data-0", "blue-etcd-data-1"}
			})
			events := slices.DeleteFunc(slices.Collect(maps.Keys(tt.podUIDs())), func(name string) bool { return !strings.Contains(name, names.EtcdEvents) })
			tt.wipe(events...)
			tt.settle()
			if reason := conditions.GetReason(tt.controlPlane(), conditionsv1.EtcdRecoveringCondition); reason != conditionsv1.NeedsDecisionReason {
				tt.t.Errorf("EtcdRecovering says %s", reason)
			}
		}, ""},
		{"a quorum can return", controlplanev1.EtcdRecoversAutomatically, func(tt *tenantTest) {
			tt.wipe("blue-etcd-data-0")
			tt.host.broken = func(pod *corev1.Pod) bool { return pod.Name == "blue-etcd-data-1" }
		}, ""},
		{"none is left, and no snapshot may be taken", controlplanev1.EtcdRecoversFromSurvivor, func(tt *tenantTest) {
			tt.wipe("blue-etcd-data-0", "blue-etcd-data-1", "blue-etcd-data-2")
		}, "spec.etcd.recovery: no member is left, and there is no verified snapshot that may be taken"},
		{"the survivor's host node is not heard from", controlplanev1.EtcdRecoversAutomatically, func(tt *tenantTest) {
			tt.wipe("blue-etcd-data-0", "blue-etcd-data-1")
			tt.host.broken = func(pod *corev1.Pod) bool { return pod.Name == "blue-etcd-data-2" }
			tt.hearNode(2, false)
		}, "spec.etcd.recovery: members blue-etcd-data-2 may have their data, and are not heard from"},
	})
}

// noNeed is a loss after which the controller founds no etcd anew by itself. says is what it tells; empty for nothing.
type noNeed struct {
	name     string
	recovery controlplanev1.EtcdRecovery
	before   func(*tenantTest)
	says     string
}

// foundNothingAnew fails if the controller founds an etcd of a tenant anew, or stops a pod.
func foundNothingAnew(t *testing.T, tenant func(t *testing.T, members int, recovery controlplanev1.EtcdRecovery) *tenantTest, cases []noNeed) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tt := tenant(t, 3, tc.recovery)
			before := tt.podUIDs()
			tc.before(tt)
			tt.settle()
			if data, events := tt.record(), tt.eventsRecord(); data.Restore != "" || events != "" {
				t.Errorf("it has begun with %+v, and %q for the events", data, events)
			}
			if now := tt.podUIDs(); !maps.Equal(now, before) {
				t.Errorf("the pods were %v and are %v", before, now)
			}
			if tc.says != "" {
				tt.expectReconciled(tc.name, tc.says)
			}
		})
	}
}

// What made members lose their data may go on, and each time costs writes.
func TestEtcdIsFoundedAnewByItselfOnceAnHour(t *testing.T) {
	t.Parallel()
	tt := losing(t, 1, controlplanev1.EtcdRecoversAutomatically)
	tt.wipe("blue-etcd-data-0")
	tt.settle()
	last := tt.record()
	tt.wipe("blue-etcd-data-0")
	tt.settle()
	if record := tt.record(); record.Restore == "" || record.Restore != last.Restore {
		t.Errorf("the record was %+v and is %+v", last, record)
	}
	tt.expectReconciled("the second loss", "spec.etcd.recovery: etcd-data was founded anew at "+last.Restore+", and lost its quorum again")
}

// losing is a tenant that works, whose data etcd may be founded anew by itself.
func losing(t *testing.T, members int, recovery controlplanev1.EtcdRecovery) *tenantTest {
	t.Helper()
	tt := restorable(t, members)
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Recovery = recovery })
	tt.settle()
	return tt
}

// wipe has members lose their data. The pods that take their places have some. Members that are left of the same etcd without a quorum are not
// ready any more.
func (tt *tenantTest) wipe(members ...string) {
	tt.t.Helper()
	if tt.host.wiped == nil {
		tt.host.wiped, tt.host.leaderless = map[types.UID]bool{}, map[types.UID]bool{}
	}
	uids := tt.podUIDs()
	for _, member := range members {
		tt.host.wiped[types.UID(uids[member])] = true
	}
	var left []types.UID
	for name, uid := range uids {
		if !slices.Contains(members, name) && clusterOf(name) == clusterOf(members[0]) {
			left = append(left, types.UID(uid))
		}
	}
	for _, uid := range left {
		tt.host.leaderless[uid] = len(left) <= (len(left)+len(members))/2
	}
}

// expectFoundedByItself fails unless etcd was founded anew once, by the controller itself. It returns when that was asked for.
func (tt *tenantTest) expectFoundedByItself(ask rebuild.Ask) metav1.Time {
	tt.t.Helper()
	record := tt.record()
	if !record.Automatic || record.Begins == nil || *record.Begins != ask || record.Phase != rebuild.Over {
		tt.t.Fatalf("the record is %+v of %+v: %+v", record, record.Begins, tt.controlPlane().Status.Conditions)
	}
	at, err := time.Parse(time.RFC3339, record.Restore)
	if err != nil {
		tt.t.Fatal(err)
	}
	data := etcdclusters.Status(tt.controlPlane(), names.EtcdData)
	if !data.RestoredAt.Time.Equal(at) || data.Restoring != nil {
		tt.t.Errorf("the status of the data etcd is %+v", data)
	}
	for name, made := range tt.host.made {
		if want := madeAfterRestore(name); made != want {
			tt.t.Errorf("pod %s was made %d times, want %d", name, made, want)
		}
	}
	return metav1.NewTime(at)
}
