package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdBackupSpec says how often snapshots of the data etcd are taken, who can read them, and where they are stored.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxAge) || !has(self.every) || duration(self.maxAge) >= duration(self.every)",message="etcd.backup.maxAge must not be less than etcd.backup.every: no snapshot is ever younger"
type EtcdBackupSpec struct {
	// every is the time between two snapshots, at least 5m.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5m')",message="etcd.backup.every must be at least 5m: a member copies its whole database for each snapshot, and starts a second etcd to try it"
	Every *metav1.Duration `json:"every,omitempty"`

	// maxAge is the age of the newest verified snapshot above which EtcdBackedUp is False; unset, three times every.
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// keep is how many verified snapshots stay.
	// +optional
	// +kubebuilder:default={}
	Keep EtcdSnapshotRetention `json:"keep,omitempty,omitzero"`

	// recipients are public keys of age (age1...) of people who can read snapshots without the host cluster. Without a
	// recipient nobody could read a snapshot once the host cluster is lost.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=set
	Recipients []string `json:"recipients,omitempty"`

	// store is where snapshots are.
	// +required
	Store EtcdSnapshotStore `json:"store,omitempty,omitzero"`
}

// EtcdSnapshotRetention is how many verified snapshots stay: the last ones, and the newest of each of the last days and
// weeks, by UTC. None is deleted unless a newer one is verified.
type EtcdSnapshotRetention struct {
	// last is the number of the last snapshots that stay.
	// +optional
	// +kubebuilder:default=24
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Last *int32 `json:"last,omitempty"`

	// daily is the number of days of which the newest one stays.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=400
	Daily *int32 `json:"daily,omitempty"`

	// weekly is the number of weeks of which the newest one stays.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=400
	Weekly *int32 `json:"weekly,omitempty"`
}

// EtcdSnapshotStore is where snapshots are: exactly one of its fields is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.s3), has(self.claimName), has(self.perMember)].exists_one(is, is)",message="exactly one of s3, claimName and perMember must be set"
type EtcdSnapshotStore struct {
	// s3 is a bucket of an S3 server, which members of etcd reach from their host nodes.
	// +optional
	S3 *S3StoreSpec `json:"s3,omitempty"`

	// claimName is a PersistentVolumeClaim with ReadWriteMany in the namespace of the control plane in the host cluster.
	// The names of its files begin with nothing of the tenant: each tenant needs a claim of its own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`

	// perMember gives every member a volume of its own for snapshots, and every member keeps every snapshot. They are on the host
	// nodes of the data, and are deleted with the control plane. It is set when the control plane is created, or not at all.
	// +optional
	PerMember *PerMemberStoreSpec `json:"perMember,omitempty"`
}

// PerMemberStoreSpec is the volume for snapshots that every member has.
type PerMemberStoreSpec struct {
	// storageClassName of the claims; unset or empty, the host cluster's default class. It never changes.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// size of each member's volume. When it is larger, volumes grow while members go on, if their StorageClass allows volumes to
	// grow; they never shrink.
	// +required
	Size *resource.Quantity `json:"size,omitempty"`
}

// S3StoreSpec is a bucket of an S3 server.
type S3StoreSpec struct {
	// endpoint is the address of the server: https://host:port.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^/?#]+/?$`
	Endpoint string `json:"endpoint,omitempty"`

	// bucket is the name of the bucket, which has to be there.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`

	// prefix begins the names of all objects; unset, "<namespace>/<name>" of the Cluster. Two control planes must not share one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Prefix string `json:"prefix,omitempty"`

	// region is what requests are signed for; unset, us-east-1, which servers without regions take.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`

	// credentialsRef names a Secret in the namespace of the control plane with the keys accessKeyID and secretAccessKey and,
	// where there is one, sessionToken.
	// +required
	CredentialsRef SecretReference `json:"credentialsRef,omitempty,omitzero"`

	// caRef names a Secret in the namespace of the control plane whose key ca.crt has the certificates that vouch for the
	// server; unset, those that the image trusts.
	// +optional
	CARef SecretReference `json:"caRef,omitempty,omitzero"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name is that of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// EtcdRestoreSpec says from what the data etcd begins, or begins again.
//
// Without requestedAt it is for a new control plane, whose keys must be those of the snapshot: `kok etcd restore` writes them
// first. With requestedAt it is for one that exists, and its data etcd is founded anew in its place.
//
// +kubebuilder:validation:XValidation:rule="has(self.snapshot) != has(self.survivor)",message="exactly one of etcd.restore.snapshot and etcd.restore.survivor must be set: a snapshot, or the member whose data are left"
// +kubebuilder:validation:XValidation:rule="!has(self.survivor) || has(self.requestedAt)",message="etcd.restore.survivor needs etcd.restore.requestedAt: set it to the present time"
// +kubebuilder:validation:XValidation:rule="self == oldSelf || has(self.requestedAt) && (!has(oldSelf.requestedAt) || self.requestedAt > oldSelf.requestedAt)",message="etcd.restore changes only with a later etcd.restore.requestedAt, which asks for another restore: set it to the present time"
type EtcdRestoreSpec struct {
	// snapshot is the name of a verified KOKEtcdSnapshot in the namespace of the control plane.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Snapshot string `json:"snapshot,omitempty"`

	// survivor is the name of the member from whose data etcd is founded anew, when so many others lost theirs that no quorum
	// can return. Everything that is in its log is kept.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Survivor string `json:"survivor,omitempty"`

	// requestedAt asks for a restore in place of a control plane that exists: its API servers stop, the data etcd is founded
	// anew, and all that was written since the snapshot is lost. A later time asks for it again.
	// +optional
	RequestedAt metav1.Time `json:"requestedAt,omitempty,omitzero"`
}

// EtcdRestoringStatus is what an etcd is being founded anew from: a snapshot, or a member that is left. The etcd with the events has neither,
// and begins empty.
//
// +kubebuilder:validation:MinProperties=1
type EtcdRestoringStatus struct {
	// requestedAt is spec.etcd.restore.requestedAt or spec.etcd.events.foundAnewAt, or when the controller began by itself.
	// +required
	RequestedAt metav1.Time `json:"requestedAt,omitempty,omitzero"`

	// snapshot is the name of the KOKEtcdSnapshot that it begins with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Snapshot string `json:"snapshot,omitempty"`

	// survivor is the name of the member with whose data it begins.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Survivor string `json:"survivor,omitempty"`

	// automatic is true when the controller began it by itself, as spec.etcd.recovery allows.
	// +optional
	Automatic *bool `json:"automatic,omitempty"`
}

// NewestSnapshotStatus is the newest verified snapshot of a data etcd.
//
// +kubebuilder:validation:MinProperties=1
type NewestSnapshotStatus struct {
	// takenAt is when it was taken.
	// +required
	TakenAt metav1.Time `json:"takenAt,omitempty,omitzero"`

	// storedBytes is its size in the store.
	// +required
	// +kubebuilder:validation:Minimum=0
	StoredBytes *int64 `json:"storedBytes,omitempty"`
}
