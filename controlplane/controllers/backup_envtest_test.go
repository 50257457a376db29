//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// personKey is the public key of a person who can read snapshots.
const personKey = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

var inBucket = controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
	Endpoint: "https://s3.example", Bucket: "snapshots", CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
}}

// writeCredentials makes the Secret that inBucket names, as a person does.
func (tt *tenantTest) writeCredentials(data map[string]string) {
	tt.t.Helper()
	if err := environment.Client.Create(tt.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: inBucket.S3.CredentialsRef.Name}, StringData: data}); err != nil {
		tt.t.Fatal(err)
	}
}

// backupFiles are what members are told; nil for nothing.
func (tt *tenantTest) backupFiles() map[string][]byte {
	tt.t.Helper()
	for _, object := range tt.objects() {
		if secret, ok := object.(*corev1.Secret); ok && secret.Name == names.Backup(tt.cluster.Name) {
			return secret.Data
		}
	}
	return nil
}

func TestMembersAreToldHowTheyAreBackedUp(t *testing.T) {
	t.Parallel()
	person, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Recipients: []string{person.Recipient().String()}, Store: inBucket}
	})
	tt.settle()
	if message := conditions.GetMessage(tt.controlPlane(), conditionsv1.EtcdBackedUpCondition); !strings.Contains(message, "--etcd-agent-image") {
		t.Errorf("without an agent it says %q", message)
	}
	tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
	tt.settle()
	condition := conditions.Get(tt.controlPlane(), conditionsv1.EtcdBackedUpCondition)
	if condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, "spec.etcd.backup.store.s3.credentialsRef names the Secret s3, which is not in namespace") {
		t.Errorf("without credentials it says %+v", condition)
	}
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Error("a backup that cannot be stops the tenant")
	}

	tt.writeCredentials(map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "other": "c"})
	tt.settle()
	files := tt.backupFiles()
	config, err := backup.DecodeConfig(files[backup.ConfigFile])
	if err != nil {
		t.Fatalf("%v: %v", err, files)
	}
	system := &corev1.Namespace{}
	if err := environment.Client.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	if config.Cluster.UID != string(system.UID) || config.Store.S3.Prefix != tt.cluster.Namespace+"/"+tt.cluster.Name || len(config.Recipients) != 2 {
		t.Errorf("members are told %+v", config)
	}
	if string(files[backup.AccessKeyIDFile]) != "a" || string(files[backup.SecretAccessKeyFile]) != "b" || files["other"] != nil {
		t.Errorf("the credentials are not those of the Secret: %v", files)
	}
	// The person has the keys, and no member of etcd has.
	keys, err := pki.OpenKeys(files[backup.KeysFile], []age.Identity{person})
	if err != nil {
		t.Fatal(err)
	}
	if decoded, err := pki.DecodeKeys(keys); err != nil || len(decoded.EncryptionKey) == 0 {
		t.Errorf("the keys are %v: %v", decoded, err)
	}
	tenant, err := age.ParseIdentities(strings.NewReader(string(files[backup.IdentityFile])))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.OpenKeys(files[backup.KeysFile], tenant); err == nil {
		t.Error("members can read the tenant's keys")
	}
	if _, err := archive.NewKey(files[backup.KeyFile]); err != nil {
		t.Error(err)
	}

	// Nothing is written again, nor with another recipient but the keys.
	tt.settle()
	again := tt.backupFiles()
	if string(again[backup.KeysFile]) != string(files[backup.KeysFile]) {
		t.Error("the keys are encrypted anew for nothing")
	}
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Etcd.Backup.Recipients = append(s.Etcd.Backup.Recipients, personKey)
	})
	if now := tt.backupFiles(); string(now[backup.KeysFile]) == string(files[backup.KeysFile]) {
		t.Error("another recipient does not get the keys")
	}
	taken := time.Now().UTC().Truncate(time.Second)
	tt.program.prober = telling{&backups.Answer{Report: &backup.Report{
		Listed: taken, Snapshots: []backup.Snapshot{{Slot: taken, Taken: taken, Verified: taken, Revision: 7, StoredBytes: 42}},
	}}}
	tt.settle()
	if newest := tt.controlPlane().Status.NewestSnapshot; newest == nil || !newest.TakenAt.Time.Equal(taken) || *newest.StoredBytes != 42 {
		t.Errorf("the newest snapshot is %+v", newest)
	}
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Backup = nil })
	if newest := tt.controlPlane().Status.NewestSnapshot; newest != nil {
		t.Errorf("without backups the newest snapshot is %+v", newest)
	}
	if files := tt.backupFiles(); files != nil {
		t.Errorf("without backups members are told %v", files)
	}
	if conditions.Get(tt.controlPlane(), conditionsv1.EtcdBackedUpCondition) != nil {
		t.Error("without backups there is a condition")
	}
}

func TestASnapshotInItsStoreGoesWithItsObject(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Recipients: []string{personKey}, Store: inBucket}
	})
	tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
	tt.writeCredentials(map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
	tt.settle()
	newest := time.Now().UTC().Truncate(time.Second)
	older := newest.Add(-time.Hour)
	store := func(slots ...time.Time) {
		report := &backup.Report{Listed: newest}
		for _, slot := range slots {
			report.Snapshots = append(report.Snapshots, backup.Snapshot{Slot: slot, Taken: slot, Verified: slot, Revision: 7, StoredBytes: 42})
		}
		tt.program.prober = telling{&backups.Answer{Report: report}}
		tt.settle()
	}
	nameOf := func(slot time.Time) string { return tt.key.Name + "-" + strings.ToLower(archive.SlotName(slot)) }
	read := func(slot time.Time) (*controlplanev1.KOKEtcdSnapshot, error) {
		object := &controlplanev1.KOKEtcdSnapshot{}
		return object, environment.Client.Get(t.Context(), tt.inNamespace(nameOf(slot)), object)
	}
	edit := func(slot time.Time, policy controlplanev1.SnapshotDeletionPolicy) {
		object, err := read(slot)
		if err != nil {
			t.Fatal(err)
		}
		object.Spec.DeletionPolicy = policy
		if err := environment.Client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		tt.settle()
	}
	remove := func(slot time.Time) {
		object, err := read(slot)
		if err != nil {
			t.Fatal(err)
		}
		if err := environment.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		tt.settle()
	}
	expect := func(slot time.Time, reason string) {
		t.Helper()
		if object, err := read(slot); err != nil || conditions.GetReason(object, conditionsv1.SnapshotStoredCondition) != reason {
			t.Errorf("%s is %+v: %v", nameOf(slot), object.Status.Conditions, err)
		}
	}
	store(newest, older)
	remove(older)
	if object, err := read(older); err != nil || !object.DeletionTimestamp.IsZero() {
		t.Errorf("what the store has is not there again: %v", err)
	}
	edit(older, controlplanev1.SnapshotDelete)
	remove(older)
	expect(older, conditionsv1.SnapshotDeletingReason)
	store(newest)
	if _, err := read(older); !apierrors.IsNotFound(err) {
		t.Errorf("what its store does not have any more is there: %v", err)
	}
	edit(newest, controlplanev1.SnapshotDelete)
	remove(newest)
	expect(newest, conditionsv1.SnapshotDeletionRefusedReason)
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Backup = nil })
	if object, err := read(newest); err != nil || !strings.Contains(conditions.GetMessage(object, conditionsv1.SnapshotStoredCondition), "spec.etcd.backup") {
		t.Errorf("without backups it says %+v: %v", object.Status.Conditions, err)
	}
	// Nothing that the controller deletes by itself takes a snapshot along, nor does the end of the control plane.
	if err := environment.Client.Delete(t.Context(), tt.controlPlane()); err != nil {
		t.Fatal(err)
	}
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(newest); !apierrors.IsNotFound(err) {
		t.Errorf("it keeps the control plane from ending: %v", err)
	}
}

func TestAnEtcdThatBeginsWithASnapshotHasOneMemberAtFirst(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Data.Replicas = ptr.To[int32](3)
		c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "former"}
	})
	tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
	tt.settle()
	tt.expectReconciled("without the snapshot", "spec.etcd.restore.snapshot names the KOKEtcdSnapshot former, which is not in namespace")
	workload := &appsv1.StatefulSet{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data"), workload); err == nil {
		t.Fatal("etcd is founded without the snapshot")
	}

	snapshot := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "former"}}
	snapshot.Spec.Source = &controlplanev1.EtcdSnapshotSource{Store: *inBucket.DeepCopy(), Slot: "20260304T050000Z"}
	snapshot.Spec.Source.Store.S3.Prefix = "team/former"
	if err := environment.Client.Create(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	tt.expectReconciled("without credentials", "spec.source.store of KOKEtcdSnapshot former.s3.credentialsRef names the Secret s3")
	tt.writeCredentials(map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
	for range 3 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	seed, err := backup.DecodeSeed(tt.backupFiles()[backup.SeedFile])
	if err != nil {
		t.Fatal(err)
	}
	if seed.Member != "blue-etcd-data-0" || archive.SlotName(seed.Slot) != "20260304T050000Z" || seed.Store.S3.Prefix != "team/former" || !strings.HasPrefix(seed.PeerURL, "https://") {
		t.Errorf("the first member is told %+v", seed)
	}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data"), workload); err != nil {
		t.Fatal(err)
	}
	files := &corev1.ConfigMap{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data-config"), files); err != nil {
		t.Fatal(err)
	}
	if *workload.Spec.Replicas != 1 || !strings.Contains(files.Data["blue-etcd-data-0.yaml"], "initial-cluster-state: existing") || strings.Contains(files.Data["blue-etcd-data-0.yaml"], "blue-etcd-data-1=") {
		t.Errorf("it has %d pods, and its file is %s", *workload.Spec.Replicas, files.Data["blue-etcd-data-0.yaml"])
	}
	events := &appsv1.StatefulSet{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-events"), events); err != nil || *events.Spec.Replicas != 1 {
		t.Errorf("the etcd of events has %d pods: %v", *events.Spec.Replicas, err)
	}
}

// A member that lost its volume would begin with the snapshot again.
func TestTheSnapshotThatAnEtcdBeganWithIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, backs := range map[string]bool{"alone": false, "with a backup whose credentials are missing": true} {
		t.Run(name, func(t *testing.T) {
			tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
				lasting(c)
				c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "former"}
				if backs {
					c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Recipients: []string{personKey}, Store: *inBucket.DeepCopy()}
					c.Spec.Etcd.Backup.Store.S3.CredentialsRef.Name = "missing"
				}
			})
			tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
			tt.writeCredentials(map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
			snapshot := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "former"}}
			snapshot.Spec.Source = &controlplanev1.EtcdSnapshotSource{Store: *inBucket.DeepCopy(), Slot: "20260304T050000Z"}
			snapshot.Spec.Source.Store.S3.Prefix = "team/former"
			if err := environment.Client.Create(t.Context(), snapshot); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := tt.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			if tt.backupFiles()[backup.SeedFile] == nil {
				t.Fatal("the first member is told of no snapshot")
			}
			// A program that starts anew, and whose status was lost, goes on with it.
			controlPlane := tt.controlPlane()
			controlPlane.Status.Etcd = nil
			if err := environment.Client.Status().Update(t.Context(), controlPlane); err != nil {
				t.Fatal(err)
			}
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
			if tt.backupFiles()[backup.SeedFile] == nil {
				t.Fatal("it is forgotten when the status is lost")
			}
			// Its members answer now.
			tt.program.etcd.Check = func(_ context.Context, members map[string]etcd.Address, _ *tls.Config) (*etcd.Health, error) {
				health := &etcd.Health{}
				for name := range members {
					health.Members = append(health.Members, etcd.Member{Name: name, Listed: true, Started: true, Answered: true, Follows: true, Leader: true})
				}
				return health, nil
			}
			tt.settle()
			if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
				t.Errorf("it is not available: %+v", tt.controlPlane().Status.Conditions)
			}
			if tt.backupFiles()[backup.SeedFile] != nil {
				t.Error("the first member begins with the snapshot again when it loses its volume")
			}
		})
	}
}
