package restore

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// Before anything is made or stopped, people are told which field is wrong, and what to write there.
func TestASnapshotIsWhereMembersCanReachIt(t *testing.T) {
	bucket := func(prefix string) controlplanev1.EtcdSnapshotStore {
		return controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
			Endpoint: "https://s3.example", Bucket: "backups", Prefix: prefix, CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
		}}
	}
	claim := controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
	const mount = "KOKEtcdSnapshot former is in the volume of claim snapshots, which members mount only where spec.etcd.backup.store.claimName names it: set that"
	own := controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{Size: ptr.To(resource.MustParse("4Gi"))}}
	const ofMembers = "KOKEtcdSnapshot former is on the volumes of the members of KOKControlPlane "
	for name, test := range map[string]struct {
		snapshot controlplanev1.KOKEtcdSnapshotSpec
		backup   *controlplanev1.EtcdSnapshotStore
		inPlace  bool
		says     string
	}{
		"on volumes of members, in place":           {snapshot: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "blue", Slot: "20260304T050000Z"}, backup: &own, inPlace: true},
		"on volumes of members that are made anew":  {snapshot: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "blue", Slot: "20260304T050000Z"}, backup: &own, says: ofMembers + "blue"},
		"on volumes of members of another":          {snapshot: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "green", Slot: "20260304T050000Z"}, backup: &own, says: ofMembers + "green"},
		"on volumes of members of another in place": {snapshot: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "green", Slot: "20260304T050000Z"}, backup: &own, inPlace: true, says: ofMembers + "green"},
		"on volumes of no members":                  {snapshot: from(own), says: "KOKEtcdSnapshot former is on the volumes of members, which"},
		"in a bucket, without backups":              {snapshot: from(bucket("team/former"))},
		"in a bucket, backups in a claim":           {snapshot: from(bucket("team/former")), backup: &claim},
		"in a claim, without backups":               {snapshot: from(claim), says: mount},
		"in a claim, backups in a bucket":           {snapshot: from(claim), backup: ptr.To(bucket("")), says: mount},
		"in a claim, backups in another":            {snapshot: from(claim), backup: &controlplanev1.EtcdSnapshotStore{ClaimName: "others"}, says: mount},
		"in a claim, backups in the same":           {snapshot: from(claim), backup: &claim},
		"in a bucket by no prefix": {
			snapshot: from(bucket("")),
			says:     "KOKEtcdSnapshot former: spec.source.store.s3.prefix: Required value: name the prefix of the former control plane: <namespace>/<name> of its Cluster",
		},
		"in two stores": {
			snapshot: from(controlplanev1.EtcdSnapshotStore{S3: bucket("a").S3, ClaimName: "snapshots"}),
			says:     "KOKEtcdSnapshot former: spec.source.store: Invalid value: exactly one of s3, claimName and perMember must be set",
		},
		"in no store yet": {
			snapshot: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: "gone"},
			says:     "spec.etcd.restore.snapshot names the KOKEtcdSnapshot former, of which no snapshot is in a store: wait until it has the condition Verified, or name another",
		},
		"nowhere": {says: "spec.etcd.restore.snapshot names the KOKEtcdSnapshot former, which is not in namespace team: `kok etcd restore` makes one"},
	} {
		t.Run(name, func(t *testing.T) {
			present := fake.NewClientBuilder().WithScheme(scheme.Scheme())
			if test.snapshot != (controlplanev1.KOKEtcdSnapshotSpec{}) {
				present = present.WithObjects(&controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "former"}, Spec: test.snapshot})
			}
			to := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
			if test.backup != nil {
				to.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Store: *test.backup}
			}
			asks := controlplanev1.EtcdRestoreSpec{Snapshot: "former"}
			for _, name := range []string{"blue", "green"} {
				c := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
				c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Store: own}
				present = present.WithObjects(c)
			}
			if test.inPlace {
				asks.RequestedAt = metav1.Now()
			}
			r := &Restorer{Management: present.Build()}
			_, says, err := r.origin(t.Context(), to, asks)
			if err != nil || (says == "") != (test.says == "") || !strings.HasPrefix(says, test.says) {
				t.Errorf("it says %q: %v", says, err)
			}
		})
	}
}

// from is the spec of a snapshot in a store.
func from(store controlplanev1.EtcdSnapshotStore) controlplanev1.KOKEtcdSnapshotSpec {
	return controlplanev1.KOKEtcdSnapshotSpec{Source: &controlplanev1.EtcdSnapshotSource{Store: store, Slot: "20260304T050000Z"}}
}
