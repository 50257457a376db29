//go:build envtest

package envtest

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// recipient is a public key of age whose secret key nobody has.
const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

func backup() *controlplanev1.EtcdBackupSpec {
	return &controlplanev1.EtcdBackupSpec{
		Recipients: []string{recipient},
		Store: controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
			Endpoint: "https://s3.example:9000", Bucket: "snapshots", CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
		}},
	}
}

// perMember is a store on volumes of members.
func perMember() controlplanev1.EtcdSnapshotStore {
	return controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{StorageClassName: ptr.To("local"), Size: ptr.To(resource.MustParse("4Gi"))}}
}

func TestBackup(t *testing.T) {
	namespace := newNamespace(t)
	for _, tc := range []struct {
		name string
		edit func(*controlplanev1.EtcdBackupSpec)
		want []string
	}{
		{"a bucket", func(*controlplanev1.EtcdBackupSpec) {}, nil},
		{"a bucket by http", func(b *controlplanev1.EtcdBackupSpec) { b.Store.S3.Endpoint = "http://s3.example" }, nil},
		{"a claim", func(b *controlplanev1.EtcdBackupSpec) {
			b.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
		}, nil},
		{"both", func(b *controlplanev1.EtcdBackupSpec) { b.Store.ClaimName = "snapshots" }, []string{
			`spec.etcd.backup.store: Invalid value: exactly one of s3, claimName and perMember must be set`}},
		{"a volume each", func(b *controlplanev1.EtcdBackupSpec) { b.Store = perMember() }, nil},
		{"a volume each and a bucket", func(b *controlplanev1.EtcdBackupSpec) { b.Store.PerMember = perMember().PerMember }, []string{
			`spec.etcd.backup.store: Invalid value: exactly one of s3, claimName and perMember must be set`}},
		{"a volume each of no size", func(b *controlplanev1.EtcdBackupSpec) {
			b.Store = perMember()
			b.Store.PerMember.Size = ptr.To(resource.MustParse("0"))
		}, []string{`spec.etcd.backup.store.perMember.size: Invalid value: "0": must be more than 0, such as 8Gi`}},
		{"too often", func(b *controlplanev1.EtcdBackupSpec) { b.Every = &metav1.Duration{Duration: time.Minute} }, []string{
			`spec.etcd.backup.every: Invalid value: "1m0s": etcd.backup.every must be at least 5m: a member copies its whole database for each snapshot, and starts a second etcd to try it`}},
		{"too seldom", func(b *controlplanev1.EtcdBackupSpec) { b.Every = &metav1.Duration{Duration: 1000 * time.Hour} }, []string{
			`spec.etcd.backup.every: Invalid value: "1000h0m0s": must be from 5m0s to 720h0m0s, in whole seconds`}},
		{"always too old", func(b *controlplanev1.EtcdBackupSpec) { b.MaxAge = &metav1.Duration{Duration: 30 * time.Minute} }, []string{
			`spec.etcd.backup: Invalid value: etcd.backup.maxAge must not be less than etcd.backup.every: no snapshot is ever younger`}},
		{"one snapshot alone", func(b *controlplanev1.EtcdBackupSpec) { b.Keep.Last = ptr.To[int32](1) }, []string{
			`spec.etcd.backup.keep.last: Invalid value: 1: spec.etcd.backup.keep.last in body should be greater than or equal to 2`}},
		{"a secret key", func(b *controlplanev1.EtcdBackupSpec) {
			b.Recipients = append(b.Recipients, "AGE-SECRET-KEY-1"+strings.Repeat("Q", 58))
		}, []string{
			`spec.etcd.backup.recipients[1]: Invalid value: is a secret key: put the public one there (age-keygen -y prints it), and make a new key, for this one was sent`}},
		{"no key", func(b *controlplanev1.EtcdBackupSpec) { b.Recipients[0] = "me" }, []string{
			`spec.etcd.backup.recipients[0]: Invalid value: is no public key of age (age1...): age-keygen -y prints one`}},
		{"an address with credentials", func(b *controlplanev1.EtcdBackupSpec) { b.Store.S3.Endpoint = "https://a:b@s3.example" }, []string{
			`spec.etcd.backup.store.s3.endpoint: Invalid value: the address has credentials, which belong into the Secret of credentialsRef: write https://host:port`}},
		{"a claim of a member", func(b *controlplanev1.EtcdBackupSpec) {
			b.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "kok-data-green-etcd-data-0"}
		}, []string{
			`spec.etcd.backup.store.claimName: Invalid value: "kok-data-green-etcd-data-0": claims whose names begin with kok-data- hold the data of members of etcd; use a claim of another name, with ReadWriteMany`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := minimal(namespace)
			c.Name, c.GenerateName = "", "tenant-"
			c.Spec.Etcd.Backup = backup()
			tc.edit(c.Spec.Etcd.Backup)
			expectRefusal(t, environment.Client.Create(t.Context(), c), tc.want...)

			object := template(namespace)
			object.Spec.Template.Spec.Etcd.Backup = backup()
			tc.edit(object.Spec.Template.Spec.Etcd.Backup)
			var ofTemplate []string
			for _, want := range tc.want {
				ofTemplate = append(ofTemplate, strings.ReplaceAll(want, "spec.etcd.backup", "spec.template.spec.etcd.backup"))
			}
			expectRefusal(t, environment.Client.Create(t.Context(), object), ofTemplate...)
		})
	}
}

func TestDefaultsOfABackup(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Spec.Etcd.Backup = backup()
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	got := c.Spec.Etcd.Backup
	g.Expect(got.Every.Duration).To(Equal(time.Hour))
	g.Expect(got.MaxAge).To(BeNil())
	g.Expect([]int32{*got.Keep.Last, *got.Keep.Daily, *got.Keep.Weekly}).To(Equal([]int32{24, 7, 4}))
}

// Members have volumes for snapshots from the beginning, or never.
func TestVolumesForSnapshotsAreNotAdded(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	const refusal = `spec.etcd.backup.store.perMember: Forbidden: cannot be added to a control plane that exists: members get their volumes when their StatefulSet is made; ` +
		`store snapshots in a bucket or in a claim (s3, claimName), or create a new control plane with perMember`
	c := minimal(namespace)
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup = backup()
	c.Spec.Etcd.Backup.Store = perMember()
	expectRefusal(t, environment.Client.Update(t.Context(), c), refusal)

	c = minimal(namespace)
	c.Name = "own"
	c.Spec.Etcd.Backup = backup()
	c.Spec.Etcd.Backup.Store = perMember()
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup.Store.PerMember.Size = ptr.To(resource.MustParse("8Gi"))
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup.Store.PerMember.StorageClassName = ptr.To("other")
	expectRefusal(t, environment.Client.Update(t.Context(), c),
		`spec.etcd.backup.store.perMember.storageClassName: Invalid value: "other": is immutable: set it to "local" again, or store snapshots in a bucket or in a claim (s3, claimName)`)
	c.Spec.Etcd.Backup.Store = backup().Store
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup.Store = perMember()
	expectRefusal(t, environment.Client.Update(t.Context(), c), refusal)

	c = minimal(namespace)
	c.Name = "volatile"
	c.Spec.Etcd.Data.Storage.Type = controlplanev1.EtcdStorageEmptyDir
	c.Spec.Etcd.Backup = backup()
	c.Spec.Etcd.Backup.Store = perMember()
	g.Expect(environment.Client.Create(t.Context(), c)).To(MatchError(ContainSubstring("data.storage.type is EmptyDir")))
}

// How a tenant is backed up may change at any time.
func TestABackupIsAddedChangedAndTakenAway(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup = backup()
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Backup = nil
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
}

func TestARestoreIsOfANewControlPlaneOrAskedForByATime(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	one := &controlplanev1.EtcdRestoreSpec{Snapshot: "blue-20300102t030000z"}

	c := minimal(namespace)
	c.Spec.Etcd.Restore = one.DeepCopy()
	c.Spec.Etcd.Data.Storage.Type = controlplanev1.EtcdStorageEmptyDir
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Restore.Snapshot = "another"
	expectRefusal(t, environment.Client.Update(t.Context(), c),
		`spec.etcd.restore: Invalid value: etcd.restore changes only with a later etcd.restore.requestedAt, which asks for another restore: set it to the present time`)
	c.Spec.Etcd.Restore = nil
	expectRefusal(t, environment.Client.Update(t.Context(), c),
		`spec.etcd.restore: Forbidden: cannot be taken away before the snapshot is restored: etcd would begin without it; wait for the condition Initialized, or delete the control plane`)
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: ptr.To(true)}}
	g.Expect(environment.Client.Status().Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Restore = nil
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Restore = one.DeepCopy()
	expectRefusal(t, environment.Client.Update(t.Context(), c),
		`spec.etcd.restore: Forbidden: cannot be added without requestedAt to a control plane that exists: all that was written since the snapshot would be lost. Set requestedAt to the present time if you want that (`+"`kok etcd restore-in-place`"+` does), or create a new control plane with it, with the keys that `+"`kok etcd restore`"+` writes`)

	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for name, wrong := range map[string]controlplanev1.EtcdRestoreSpec{
		"exactly one of etcd.restore.snapshot and etcd.restore.survivor must be set": {Snapshot: "a", Survivor: "tenant-etcd-data-0", RequestedAt: now},
		"etcd.restore.survivor needs etcd.restore.requestedAt":                       {Survivor: "tenant-etcd-data-0"},
		"is no member of a data etcd":                                                {Survivor: "tenant", RequestedAt: now},
	} {
		c.Spec.Etcd.Restore = &wrong
		g.Expect(environment.Client.Update(t.Context(), c)).To(MatchError(ContainSubstring(name)))
	}
	c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Survivor: "tenant-etcd-data-0", RequestedAt: now}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Restore.Survivor = "tenant-etcd-data-1"
	expectRefusal(t, environment.Client.Update(t.Context(), c),
		`spec.etcd.restore: Invalid value: etcd.restore changes only with a later etcd.restore.requestedAt, which asks for another restore: set it to the present time`)
	c.Spec.Etcd.Restore.RequestedAt = metav1.NewTime(now.Add(time.Second))
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())

	object := template(namespace)
	object.Spec.Template.Spec.Etcd.Restore = one
	expectRefusal(t, environment.Client.Create(t.Context(), object),
		`spec.template.spec.etcd.restore: Forbidden: a snapshot is that of one control plane, and a template is for many: remove it, and set spec.etcd.restore of one KOKControlPlane when you create it`)
}

func TestKOKEtcdSnapshot(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	source := &controlplanev1.EtcdSnapshotSource{Store: backup().Store, Slot: "20300102T030000Z"}
	for _, tc := range []struct {
		name string
		spec controlplanev1.KOKEtcdSnapshotSpec
		want []string
	}{
		{"of a control plane", controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant"}, nil},
		{"that was found", controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant", Slot: "20300102T030000Z"}, nil},
		{"of a store", controlplanev1.KOKEtcdSnapshotSpec{Source: source}, nil},
		{"of volumes of members", controlplanev1.KOKEtcdSnapshotSpec{Source: &controlplanev1.EtcdSnapshotSource{Store: perMember(), Slot: "20300102T030000Z"}}, []string{
			`spec.source: Invalid value: a snapshot on the volumes of members is reached by their own control plane alone: have that store snapshots in a bucket, or in a claim, take one, and name that one`}},
		{"of both", controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant", Source: source}, []string{
			`spec: Invalid value: exactly one of controlPlaneName and source must be set: take a snapshot of a control plane, or name one in a store`}},
		{"of a control plane, that goes with its object", controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant", DeletionPolicy: controlplanev1.SnapshotDelete}, nil},
		{"of a store, that stays", controlplanev1.KOKEtcdSnapshotSpec{Source: source, DeletionPolicy: controlplanev1.SnapshotRetain}, nil},
		{"of a store, that goes with its object", controlplanev1.KOKEtcdSnapshotSpec{Source: source, DeletionPolicy: controlplanev1.SnapshotDelete}, []string{
			"spec: Invalid value: deletionPolicy must be Retain with source: the store is not this object's, and only the members of its own control plane delete there; leave it out"}},
		{"by another policy", controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant", DeletionPolicy: "Orphan"}, []string{
			`spec.deletionPolicy: Unsupported value: "Orphan": supported values: "Delete", "Retain"`,
			"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"}},
		{"by no time", controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant", Slot: "2030-01-02T03:00"}, []string{
			"spec.slot: Invalid value: \"2030-01-02T03:00\": spec.slot in body should match '^[0-9]{8}T[0-9]{6}Z$'"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			snapshot := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "snapshot-"}, Spec: tc.spec}
			expectRefusal(t, environment.Client.Create(t.Context(), snapshot), tc.want...)
		})
	}
	snapshot := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Spec: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "tenant"}}
	g.Expect(environment.Client.Create(t.Context(), snapshot)).To(Succeed())
	for _, policy := range []controlplanev1.SnapshotDeletionPolicy{controlplanev1.SnapshotDelete, controlplanev1.SnapshotRetain, ""} {
		snapshot.Spec.DeletionPolicy = policy
		g.Expect(environment.Client.Update(t.Context(), snapshot)).To(Succeed())
	}
	const another = "is immutable: create another KOKEtcdSnapshot"
	for _, tc := range []struct {
		edit func(*controlplanev1.KOKEtcdSnapshotSpec)
		want []string
	}{
		{func(s *controlplanev1.KOKEtcdSnapshotSpec) { s.ControlPlaneName = "another" }, []string{"spec: Invalid value: controlPlaneName " + another}},
		{func(s *controlplanev1.KOKEtcdSnapshotSpec) { s.Slot = "20300102T030000Z" }, []string{"spec: Invalid value: slot " + another}},
		{func(s *controlplanev1.KOKEtcdSnapshotSpec) { s.ControlPlaneName, s.Source = "", source }, []string{"spec: Invalid value: controlPlaneName " + another, "spec: Invalid value: source " + another}},
	} {
		changed := snapshot.DeepCopy()
		tc.edit(&changed.Spec)
		expectRefusal(t, environment.Client.Update(t.Context(), changed), tc.want...)
	}
}
