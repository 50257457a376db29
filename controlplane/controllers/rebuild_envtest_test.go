//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/restore"
)

// formerID is the ID of the cluster that a tenant's data etcd is at first.
const formerID = "00000000000f0e3e"

// Whenever the manager is killed, all that used the former data has stopped before the new etcd is founded, and each pod is made
// once more. Events are left alone.
func TestEtcdIsRestoredInPlace(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return restorable(t, 1) }, func(tt *tenantTest) {
		requested := tt.requestRestore(controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"})
		tt.settleThroughFaults()
		tt.expectRestored(requested)
		for name, made := range tt.host.made {
			if want := madeAfterRestore(name); made != want {
				tt.t.Errorf("pod %s was made %d times, want %d", name, made, want)
			}
		}
		former, err := backup.DecodeFormer(tt.backupFiles()[backup.FormerFile])
		if err != nil || !slices.Equal(former.ClusterIDs, []string{formerID}) {
			tt.t.Errorf("members are told that the former clusters are %v: %v", former, err)
		}
		if tt.backupFiles()[backup.SeedFile] != nil {
			tt.t.Error("the first member begins with the snapshot again when it loses its volume")
		}
		// That a person takes the request away changes nothing.
		edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Restore = nil })
		tt.settleThroughFaults()
		tt.expectRestored(requested)
	})
}

// madeAfterRestore is how often a pod was made after one restore in place.
func madeAfterRestore(pod string) int {
	if strings.Contains(pod, names.EtcdEvents) {
		return 1
	}
	return 2
}

// Nothing stops for a request that cannot be met, and nothing is written again and again.
func TestARestoreInPlaceIsJudgedBeforeAnythingStops(t *testing.T) {
	t.Parallel()
	tt := restorable(t, 1)
	before, keyID := tt.podUIDs(), tt.snapshotKeyID()
	for _, tc := range []struct {
		name   string
		before func()
		asks   controlplanev1.EtcdRestoreSpec
		says   string
	}{
		{"no such snapshot", func() {}, controlplanev1.EtcdRestoreSpec{Snapshot: "missing"},
			"spec.etcd.restore: snapshot names the KOKEtcdSnapshot missing, which is not in namespace " + tt.key.Namespace},
		{"a snapshot of another key", func() {
			tt.editSnapshot(func(s *controlplanev1.KOKEtcdSnapshot) { s.Status.EncryptionKeyID = "another" })
		},
			controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"}, "which was taken with the encryption key another"},
		{"a snapshot of a newer etcd", func() {
			tt.editSnapshot(func(s *controlplanev1.KOKEtcdSnapshot) {
				s.Status.EtcdVersion, s.Status.EncryptionKeyID = "3.99.0", keyID
			})
		}, controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"}, "which is of etcd 3.99.0"},
		{"a snapshot that its trial refused", func() {
			tt.editSnapshot(func(s *controlplanev1.KOKEtcdSnapshot) {
				s.Status.EtcdVersion = "3.5.0"
				conditions.Set(s, metav1.Condition{Type: conditionsv1.SnapshotVerifiedCondition, Status: metav1.ConditionFalse, Reason: "Damaged", Message: "a page is torn"})
			})
		}, controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"}, "which cannot be used (Damaged: a page is torn): name another"},
		{"a manager that has just started, and knows no volume", func() {
			tt.editSnapshot(func(s *controlplanev1.KOKEtcdSnapshot) {
				conditions.Set(s, metav1.Condition{Type: conditionsv1.SnapshotVerifiedCondition, Status: metav1.ConditionTrue, Reason: "Verified"})
			})
			tt.program.prober = telling{}
		}, controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"}, "members are being asked how much room their volumes have"},
		{"a snapshot that is too large for the volume", func() {
			tt.editSnapshot(func(s *controlplanev1.KOKEtcdSnapshot) {
				s.Status.DatabaseBytes = 1 << 30
			})
			tt.program.prober = tellingVolumes(map[string]backup.Volume{"blue-etcd-data-0": {FreeBytes: 2 << 30}})
		}, controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"},
			"spec.etcd.restore: the volume of blue-etcd-data-0 has 2147483648 bytes of room, and 2315255808 are needed beside the former data: raise spec.etcd.data.storage.size where volumes can grow, or make room for 167772160 bytes on it"},
		{"a bucket that is not there any more", func() {
			tt.editSnapshot(func(s *controlplanev1.KOKEtcdSnapshot) { s.Status.DatabaseBytes = 1 << 20 })
			tt.program.prober = telling{&backups.Answer{Unread: map[string]backup.Problem{
				"blue-etcd-data-0": {Field: "store.s3.bucket", Message: "list: s3.bucket: there is no bucket: make it, or name another one"},
			}}}
		}, controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"},
			"spec.etcd.restore: member blue-etcd-data-0, which would begin with the snapshot, cannot read spec.etcd.backup.store: store.s3.bucket: list: s3.bucket: there is no bucket: make it, or name another one"},
		{"a survivor that is no member", func() {}, controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-7"}, "survivor names blue-etcd-data-7, which is no member"},
		{"a survivor with a quorum", func() {}, controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-0"}, "are a majority, so that a quorum can return"},
		{"a host node that is not heard from", func() { tt.hearNode(0, false) }, controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-0"}, "spec.etcd.restore: "},
	} {
		tc.before()
		tt.requestRestore(tc.asks)
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		tt.expectReconciled(tc.name, tc.says)
		if now := tt.podUIDs(); !maps.Equal(now, before) {
			t.Fatalf("%s: the pods were %v and are %v", tc.name, before, now)
		}
	}
	tt.storeRefused(patchOf(names.EtcdData, "StatefulSet", "spec: {replicas: 5}")) // As by a rule of a newer provider.
	tt.settle()
	tt.expectReconciled("patches that are refused", "the controller cannot tell members what they begin with, because it renders nothing new: spec.patches[0]")
	tt.patch()
	if now := tt.podUIDs(); !maps.Equal(now, before) {
		t.Fatalf("the pods were %v and are %v", before, now)
	}
	if record := tt.record(); record.Restore != "" || !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Errorf("it has begun with %+v, or the control plane is not available", record)
	}
}

// telling answers for the agents of members. Without an answer nobody has answered yet.
type telling struct{ answer *backups.Answer }

func tellingVolumes(volumes map[string]backup.Volume) telling {
	return telling{&backups.Answer{Volumes: volumes}}
}

func (a telling) Probe(key probe.Key, asked probe.Probe) (probe.Result, bool) {
	switch {
	case key.Kind != backups.ProbeKind:
		return patient{}.Probe(key, asked)
	case a.answer == nil:
		return probe.Result{}, false
	}
	return probe.Result{Value: *a.answer}, true
}

func (telling) Forget(object types.NamespacedName) { patient{}.Forget(object) }
func (telling) Withdraw(key probe.Key)             { patient{}.Withdraw(key) }

// Data that are left on one member of three are what the new etcd begins with, on that member alone.
func TestEtcdIsRestoredFromASurvivor(t *testing.T) {
	t.Parallel()
	tt := restorable(t, 3)
	tt.host.broken = func(pod *corev1.Pod) bool { return pod.Name == "blue-etcd-data-0" || pod.Name == "blue-etcd-data-1" }
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.GivenUp = []string{"blue-etcd-data-0", "blue-etcd-data-1"}
	})
	before := tt.podUIDs()
	tt.program.prober = tellingVolumes(map[string]backup.Volume{"blue-etcd-data-2": {FreeBytes: 1 << 30, SurvivorBytes: 3 << 30}})
	requested := tt.requestRestore(controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-2"})
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	tt.expectReconciled("without room", "spec.etcd.restore: the volume of blue-etcd-data-2 has 1073741824 bytes of room, and 3221225472 are needed")
	if now := tt.podUIDs(); !maps.Equal(now, before) {
		t.Fatalf("without room the pods were %v and are %v", before, now)
	}
	tt.program.prober = tellingVolumes(map[string]backup.Volume{"blue-etcd-data-2": {FreeBytes: 3 << 30, SurvivorBytes: 3 << 30}})
	var told []byte
	for range manyRounds {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		if tt.record().Phase == rebuild.Over {
			break
		}
		if file := tt.backupFiles()[backup.SeedFile]; file != nil {
			told = file
		}
		if _, err := tt.host.work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pods := slices.Sorted(maps.Keys(tt.podUIDs()))
	seed, err := backup.DecodeSeed(told)
	if err != nil || seed.Member != "blue-etcd-data-2" || !seed.Survivor || seed.Restore != rebuild.Stamp(requested.Time) {
		t.Errorf("the survivor is told %+v: %v", seed, err)
	}
	pods = slices.DeleteFunc(pods, func(name string) bool { return !strings.Contains(name, names.EtcdData) })
	if !slices.Equal(pods, []string{"blue-etcd-data-2"}) || tt.record().Phase != rebuild.Over {
		t.Errorf("it is founded by %v, and the record is %+v", pods, tt.record())
	}
}

// The first survivor cannot begin. Another member, whose host node was off when etcd lost its quorum, has its data, and begins in its place.
func TestAnotherSurvivorIsNamedWhenTheFirstCannotBegin(t *testing.T) {
	t.Parallel()
	tt := restorable(t, 3)
	const first, second = "blue-etcd-data-2", "blue-etcd-data-1"
	tt.host.broken = func(pod *corev1.Pod) bool {
		return pod.Name == "blue-etcd-data-0" || pod.Name == second && !tt.founds(second)
	}
	tt.host.refuses = func(pod *corev1.Pod) string {
		if pod.Name == first && tt.founds(first) {
			return "there are no data to salvage"
		}
		return ""
	}
	ask := func(survivor string, givenUp ...string) metav1.Time {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.GivenUp = givenUp })
		return tt.requestRestore(controlplanev1.EtcdRestoreSpec{Survivor: survivor})
	}
	ask(first, "blue-etcd-data-0", second)
	tt.settle()
	if record, message := tt.record(), conditions.GetMessage(tt.controlPlane(), conditionsv1.EtcdRecoveringCondition); record.Phase != rebuild.Founding ||
		!strings.Contains(message, "member "+first+" has yet to answer as the first one of the new etcd, with its own data. If it cannot begin with them, name another survivor") {
		t.Fatalf("the record is %+v, and EtcdRecovering says %q", record, message)
	}
	requested := ask(second, "blue-etcd-data-0")
	for range manyRounds {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		if _, err := tt.host.work(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tt.record().Phase == rebuild.Over {
			break
		}
	}
	if record := tt.record(); record.Phase != rebuild.Over || record.Seed != second || record.Restore != rebuild.Stamp(requested.Time) {
		tt.expectReconciled("another survivor", "")
		t.Errorf("the record is %+v", record)
	}
}

// founds reports whether a member is told to begin a new etcd.
func (tt *tenantTest) founds(member string) bool {
	seed, err := backup.DecodeSeed(tt.backupFiles()[backup.SeedFile])
	return err == nil && seed.Member == member
}

// restorable is a tenant that works, with a snapshot, on host nodes that are heard from.
func restorable(t *testing.T, members int, edits ...func(*controlplanev1.KOKControlPlane)) *tenantTest {
	t.Helper()
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Data.Replicas = ptr.To(int32(members))
		c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Recipients: []string{personKey}, Store: *inBucket.DeepCopy()}
		for _, edit := range edits {
			edit(c)
		}
	})
	tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
	tt.host.prefix = tt.key.Namespace + "-"
	for i := range 3 {
		tt.createNode(i)
		tt.hearNode(i, true)
	}
	tt.tellClusterID(tt.tellEtcd(members))
	tt.writeCredentials(map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
	tt.settle()
	tt.eachPodWasMade(1)
	tt.addSnapshot("snapshot", "20260304T050000Z")
	return tt
}

// addSnapshot adds a verified snapshot, as a member's agent would report it.
func (tt *tenantTest) addSnapshot(name, slot string) {
	tt.t.Helper()
	s := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: name}}
	s.Spec.ControlPlaneName, s.Spec.Slot = tt.key.Name, slot
	if err := environment.Client.Create(tt.t.Context(), s); err != nil {
		tt.t.Fatal(err)
	}
	s.Status.Slot, s.Status.EncryptionKeyID, s.Status.EtcdVersion = slot, tt.snapshotKeyID(), "3.5.0"
	conditions.Set(s, metav1.Condition{Type: conditionsv1.SnapshotVerifiedCondition, Status: metav1.ConditionTrue, Reason: "Verified"})
	if err := environment.Client.Status().Update(tt.t.Context(), s); err != nil {
		tt.t.Fatal(err)
	}
}

// snapshotKeyID is the ID of the key that snapshots are taken with.
func (tt *tenantTest) snapshotKeyID() string {
	tt.t.Helper()
	encryption := &corev1.Secret{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-encryption"), encryption); err != nil {
		tt.t.Fatal(err)
	}
	_, _, id, err := pki.SnapshotKeys(encryption.Data[pki.EncryptionKey])
	if err != nil {
		tt.t.Fatal(err)
	}
	return id
}

// editSnapshot changes the status of the snapshot, as reports of agents do.
func (tt *tenantTest) editSnapshot(change func(*controlplanev1.KOKEtcdSnapshot)) {
	tt.t.Helper()
	snapshot := &controlplanev1.KOKEtcdSnapshot{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("snapshot"), snapshot); err != nil {
		tt.t.Fatal(err)
	}
	change(snapshot)
	if err := environment.Client.Status().Update(tt.t.Context(), snapshot); err != nil {
		tt.t.Fatal(err)
	}
}

// hearNode says since an hour that a host node is heard from, or is not.
func (tt *tenantTest) hearNode(i int, heard bool) {
	tt.t.Helper()
	node := &corev1.Node{}
	if err := environment.Client.Get(tt.t.Context(), client.ObjectKey{Name: fmt.Sprintf("%s%d", tt.host.prefix, i)}, node); err != nil {
		tt.t.Fatal(err)
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}
	if !heard {
		ready.Status = corev1.ConditionUnknown
	}
	node.Status.Conditions = []corev1.NodeCondition{ready}
	if err := environment.Client.Status().Update(tt.t.Context(), node); err != nil {
		tt.t.Fatal(err)
	}
}

// tellClusterID lets the data etcd tell its ID: the former one, until members were told to found another. Then nothing may be left
// that knows the former data.
func (tt *tenantTest) tellClusterID(e *toldEtcd) {
	inner, id, former := e.check, formerID, map[string]string{}
	tt.program.etcd.Check = func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
		health, err := inner(ctx, members, config)
		if err != nil || !strings.Contains(health.Members[0].Name, names.EtcdData) {
			return health, err
		}
		now := tt.podUIDs()
		if seed, err := backup.DecodeSeed(tt.backupFiles()[backup.SeedFile]); err == nil && id == formerID && !tt.refusesSeed(seed.Member) {
			id = rebuild.ClusterID(seed.PeerURL, seed.Restore)
			maps.DeleteFunc(e.listed, func(name string, _ *etcd.Member) bool {
				return name != seed.Member && strings.Contains(name, names.EtcdData)
			})
			for name, uid := range former {
				if now[name] == uid && madeAfterRestore(name) == 2 {
					tt.t.Errorf("etcd is founded anew while pod %s of before is there", name)
				}
			}
		}
		if id == formerID {
			former = now
		}
		health.ClusterID = id
		return health, nil
	}
}

// refusesSeed reports whether the member that begins cannot.
func (tt *tenantTest) refusesSeed(member string) bool {
	return tt.host.refuses != nil && tt.host.refuses(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: member}}) != ""
}

// requestRestore asks for a restore in place, later than the last one.
func (tt *tenantTest) requestRestore(asks controlplanev1.EtcdRestoreSpec) metav1.Time {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		asks.RequestedAt = metav1.NewTime(time.Now().Truncate(time.Second))
		if last := c.Spec.Etcd.Restore; last != nil && !asks.RequestedAt.After(last.RequestedAt.Time) {
			asks.RequestedAt = metav1.NewTime(last.RequestedAt.Add(time.Second))
		}
		c.Spec.Etcd.Restore = &asks
	})
	return asks.RequestedAt
}

// record is what is known of the last restore in place.
func (tt *tenantTest) record() (record rebuild.Record) {
	tt.t.Helper()
	config := &corev1.ConfigMap{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(names.RestoreRecord(tt.cluster.Name)), config); client.IgnoreNotFound(err) != nil {
		tt.t.Fatal(err)
	} else if text, restored := config.Data[restore.RecordKey]; restored {
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			tt.t.Fatal(err)
		}
	}
	return record
}

func (tt *tenantTest) restoring() bool {
	return conditions.IsTrue(tt.controlPlane(), conditionsv1.EtcdRecoveringCondition)
}

// expectRestored fails unless the restore is over, and said to be.
func (tt *tenantTest) expectRestored(requested metav1.Time) {
	tt.t.Helper()
	data := etcdclusters.Status(tt.controlPlane(), names.EtcdData)
	if !data.RestoredAt.Time.Equal(requested.Time) || data.ClusterID == formerID || data.ClusterID != tt.record().ClusterID {
		tt.t.Errorf("the status of the data etcd is %+v, and the record %+v", data, tt.record())
	}
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) || tt.restoring() {
		tt.t.Errorf("it is not available, or still restores: %+v", tt.controlPlane().Status.Conditions)
	}
}
