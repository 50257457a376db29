package backups

import (
	"cmp"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// Defaults of spec.etcd.backup, where no API server set them.
const (
	defaultEvery  = time.Hour
	defaultLast   = 24
	defaultDaily  = 7
	defaultWeekly = 4
)

// Every is the time between two snapshots.
func Every(spec *controlplanev1.EtcdBackupSpec) time.Duration {
	if spec.Every == nil {
		return defaultEvery
	}
	return spec.Every.Duration
}

// maxAge is the age above which the newest verified snapshot is too old.
func maxAge(spec *controlplanev1.EtcdBackupSpec) time.Duration {
	if spec.MaxAge == nil {
		return 3 * Every(spec)
	}
	return spec.MaxAge.Duration
}

// tenantFacts is what members are told about the tenant besides its spec.
type tenantFacts struct {
	Cluster client.ObjectKey
	// UID is that of its namespace kube-system.
	UID string
	// Recipient is the tenant's own public key of age.
	Recipient string
	// EncryptionKeyID and KeysID are those of backup.Config.
	EncryptionKeyID, KeysID string
}

// configFor is what members are told about the backup.
func configFor(spec *controlplanev1.EtcdBackupSpec, of tenantFacts) backup.Config {
	return backup.Config{
		Cluster: backup.Cluster{Namespace: of.Cluster.Namespace, Name: of.Cluster.Name, UID: of.UID},
		Every:   Every(spec),
		Keep: backup.Keep{
			Last:   int(ptr.Deref(spec.Keep.Last, defaultLast)),
			Daily:  int(ptr.Deref(spec.Keep.Daily, defaultDaily)),
			Weekly: int(ptr.Deref(spec.Keep.Weekly, defaultWeekly)),
		},
		Recipients:      append([]string{of.Recipient}, spec.Recipients...),
		EncryptionKeyID: of.EncryptionKeyID, KeysID: of.KeysID,
		Store: Store(spec.Store, of.Cluster),
	}
}

// Store is where the snapshots of a Cluster are.
func Store(spec controlplanev1.EtcdSnapshotStore, of client.ObjectKey) backup.Store {
	if spec.S3 == nil {
		return backup.Store{PerMember: spec.PerMember != nil}
	}
	return backup.Store{S3: &backup.S3{
		Endpoint: spec.S3.Endpoint, Bucket: spec.S3.Bucket, Region: spec.S3.Region,
		Prefix: cmp.Or(spec.S3.Prefix, of.Namespace+"/"+of.Name),
	}}
}

// slotOf reads the name of a snapshot, which the API server has checked.
func slotOf(name string) time.Time {
	slot, err := archive.ParseSlot(name)
	if err != nil {
		return time.Time{}
	}
	return slot
}

// Origin is the snapshot that a control plane begins with: its store, its name, and the Cluster that the store's default
// prefix is of.
type Origin struct {
	Store controlplanev1.EtcdSnapshotStore
	Slot  time.Time
	Of    client.ObjectKey
}

// OriginOf says where the snapshot of an object is; it is false for one whose snapshot is not there yet. Without a source it is
// in the store of its control plane, which has to be given.
func OriginOf(snapshot *controlplanev1.KOKEtcdSnapshot, controlPlane *controlplanev1.KOKControlPlane, cluster client.ObjectKey) (Origin, bool) {
	if source := snapshot.Spec.Source; source != nil {
		return Origin{Store: source.Store, Slot: slotOf(source.Slot), Of: cluster}, true
	}
	slot := slotOf(cmp.Or(snapshot.Spec.Slot, snapshot.Status.Slot))
	if controlPlane == nil || controlPlane.Spec.Etcd.Backup == nil || slot.IsZero() {
		return Origin{}, false
	}
	return Origin{Store: controlPlane.Spec.Etcd.Backup.Store, Slot: slot, Of: cluster}, true
}
