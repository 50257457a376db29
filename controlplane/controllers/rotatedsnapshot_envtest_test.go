//go:build envtest

package controllers

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// membersOfKeys answer as telling does, and with the keys of the files that they read.
type membersOfKeys struct {
	telling
	keysID func() string
}

func (m membersOfKeys) Probe(key probe.Key, asked probe.Probe) (probe.Result, bool) {
	if key.Kind != backups.ProbeKind {
		return m.telling.Probe(key, asked)
	}
	answer := *m.answer
	answer.KeysIDs = []string{m.keysID()}
	return probe.Result{Value: answer}, true
}

// toldConfig is the configuration that members are told.
func (tt *tenantTest) toldConfig() backup.Config {
	tt.t.Helper()
	config, err := backup.DecodeConfig(tt.backupFiles()[backup.ConfigFile])
	if err != nil {
		tt.t.Fatal(err)
	}
	return config
}

// backedUp is a tenant before a rotation, whose members have the files that they are told and a verified snapshot.
func backedUp(t *testing.T) *tenantTest {
	t.Helper()
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Recipients: []string{personKey}, Store: *inBucket.DeepCopy()}
	})
	tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
	tt.writeCredentials(map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
	tt.settle()
	before := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	report := &backup.Report{Listed: before, Snapshots: []backup.Snapshot{tt.snapshotAt(before)}}
	tt.program.prober = membersOfKeys{telling{&backups.Answer{Report: report}}, func() string { return tt.toldConfig().KeysID }}
	tt.settle()
	return tt
}

// snapshotAt is a verified snapshot by the present keys.
func (tt *tenantTest) snapshotAt(slot time.Time) backup.Snapshot {
	return backup.Snapshot{Slot: slot, Taken: slot, Verified: slot, Revision: 7, StoredBytes: 42, EncryptionKeyID: tt.toldConfig().EncryptionKeyID}
}

// asked are the objects that ask for a snapshot.
func (tt *tenantTest) asked() []controlplanev1.KOKEtcdSnapshot {
	tt.t.Helper()
	list := &controlplanev1.KOKEtcdSnapshotList{}
	if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace)); err != nil {
		tt.t.Fatal(err)
	}
	var asked []controlplanev1.KOKEtcdSnapshot
	for _, object := range list.Items {
		if object.Spec.Slot == "" {
			asked = append(asked, object)
		}
	}
	return asked
}

// askedOnce fails unless one object asks for a snapshot after the last end of these rotations, and returns it.
func (tt *tenantTest) askedOnce(dataKeys ...string) controlplanev1.KOKEtcdSnapshot {
	tt.t.Helper()
	var ended time.Time
	for _, key := range dataKeys {
		over := tt.rotationOf(key)
		at, err := time.Parse(time.RFC3339, over.Ended)
		if err != nil || over.Phase != rotation.Over {
			tt.t.Fatalf("%s is %+v: %v", key, over.Record, err)
		}
		if at.After(ended) {
			ended = at
		}
	}
	asked := tt.asked()
	if len(asked) != 1 {
		tt.t.Fatalf("there are %d objects: %+v", len(asked), asked)
	}
	object := asked[0]
	if want := tt.key.Name + "-rotated-" + strings.ToLower(archive.SlotName(ended)); object.Name != want || !metav1.IsControlledBy(&object, tt.controlPlane()) {
		tt.t.Errorf("it is %s of %v, want %s", object.Name, object.OwnerReferences, want)
	}
	return object
}

func (tt *tenantTest) backedUpSays() string {
	tt.t.Helper()
	return conditions.GetMessage(tt.controlPlane(), conditionsv1.EtcdBackedUpCondition)
}

func TestAVerifiedSnapshotFollowsARotation(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := backedUp(t)
	members := tt.program.prober.(membersOfKeys)
	former := tt.toldConfig().KeysID
	tt.prepareKinds(controlplanev1.ServiceAccountKeyKind)
	tt.settle()
	tt.completeKeys("pod-tokens/" + tt.file())

	// Kubelets bring members the new keys later.
	tt.program.prober = membersOfKeys{members.telling, func() string { return former }}
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "service account key (Over")
	if asked, says := tt.asked(), tt.backedUpSays(); len(asked) > 0 || !strings.Contains(says, "when all members have the present keys") {
		t.Errorf("before members have the keys there are %d objects, and it says %q", len(asked), says)
	}
	tt.program.prober = members
	tt.settle()
	object := tt.askedOnce("sa.rotation")
	if says := tt.backedUpSays(); !strings.Contains(says, "KOKEtcdSnapshot "+object.Name+" asks for it") {
		t.Errorf("it says %q", says)
	}

	report := members.answer.Report
	report.Snapshots = append([]backup.Snapshot{tt.snapshotAt(object.CreationTimestamp.UTC())}, report.Snapshots...)
	tt.settle()
	if object = tt.askedOnce("sa.rotation"); !conditions.IsTrue(&object, conditionsv1.SnapshotVerifiedCondition) || strings.Contains(tt.backedUpSays(), object.Name) {
		t.Errorf("it is %+v, and the condition says %q", object.Status.Conditions, tt.backedUpSays())
	}
	// Who deletes the object does not ask for another snapshot.
	if err := environment.Client.Delete(t.Context(), &object); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	if asked := tt.asked(); len(asked) > 0 {
		t.Errorf("it is asked for again: %+v", asked)
	}
}

func TestNoSnapshotFollowsARotationWithoutBackups(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeRotation(t)
	tt.prepareKinds(controlplanev1.ServiceAccountKeyKind)
	tt.settle()
	tt.completeKeys("pod-tokens/" + tt.file())
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "service account key (Over")
	if asked := tt.asked(); len(asked) > 0 {
		t.Errorf("there is %+v", asked)
	}
}

// A manager that is killed after any write, or whose writes are refused, asks once. One snapshot follows two kinds of keys.
func TestASnapshotAfterARotationIsAskedForOnce(t *testing.T) {
	withFaults(t, backedUp, func(tt *tenantTest) {
		tt.encrypts(&tenantData{})
		tt.prepareBothKeys()
		tt.workThroughFaults()
		tt.completeKeys("pod-tokens/" + tt.file())
		tt.workThroughFaults()
		tt.askedOnce("sa.rotation", "encryption.rotation")
	})
}
