package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KOKEtcdSnapshotSpec says which snapshot this is: one of a control plane, or one of any store.
//
// +kubebuilder:validation:XValidation:rule="has(self.controlPlaneName) != has(self.source)",message="exactly one of controlPlaneName and source must be set: take a snapshot of a control plane, or name one in a store"
// +kubebuilder:validation:XValidation:rule="has(self.controlPlaneName) == has(oldSelf.controlPlaneName) && (!has(self.controlPlaneName) || self.controlPlaneName == oldSelf.controlPlaneName)",message="controlPlaneName is immutable: create another KOKEtcdSnapshot"
// +kubebuilder:validation:XValidation:rule="has(self.slot) == has(oldSelf.slot) && (!has(self.slot) || self.slot == oldSelf.slot)",message="slot is immutable: create another KOKEtcdSnapshot"
// +kubebuilder:validation:XValidation:rule="has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",message="source is immutable: create another KOKEtcdSnapshot"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.deletionPolicy) || self.deletionPolicy == 'Retain'",message="deletionPolicy must be Retain with source: the store is not this object's, and only the members of its own control plane delete there; leave it out"
type KOKEtcdSnapshotSpec struct {
	// controlPlaneName is the KOKControlPlane that the snapshot is of. Without slot, one is taken now.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ControlPlaneName string `json:"controlPlaneName,omitempty"`

	// slot is the name of the snapshot in the store of its control plane. The controller sets it in the objects that it makes
	// of the snapshots that it finds there.
	// +optional
	// +kubebuilder:validation:MinLength=16
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{8}T[0-9]{6}Z$`
	Slot string `json:"slot,omitempty"`

	// source is a snapshot in a store, of a control plane that may be gone.
	// +optional
	Source *EtcdSnapshotSource `json:"source,omitempty"`

	// deletionPolicy says what becomes of the snapshot in its store when this object is deleted. Retain, which is meant where it is
	// unset, keeps it, and the controller makes the object again. Delete has a member delete it first, but never before a newer snapshot
	// is verified, and not when the control plane itself is deleted. It may change at any time.
	// +optional
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// SnapshotDeletionPolicy says what becomes of a snapshot in its store when its object is deleted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type SnapshotDeletionPolicy string

const (
	// SnapshotDelete has a member of the data etcd delete it.
	SnapshotDelete SnapshotDeletionPolicy = "Delete"
	// SnapshotRetain keeps it.
	SnapshotRetain SnapshotDeletionPolicy = "Retain"
)

// KOKEtcdSnapshotFinalizer keeps a KOKEtcdSnapshot whose deletionPolicy is Delete until its store does not have the snapshot any more.
const KOKEtcdSnapshotFinalizer = "controlplane.cluster.x-k8s.io/koketcdsnapshot"

// EtcdSnapshotSource is a snapshot in a store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.store.perMember)",message="a snapshot on the volumes of members is reached by their own control plane alone: have that store snapshots in a bucket, or in a claim, take one, and name that one"
type EtcdSnapshotSource struct {
	// store is where the snapshot is.
	// +required
	Store EtcdSnapshotStore `json:"store,omitempty,omitzero"`

	// slot is the name of the snapshot, as `kok etcd list` shows it.
	// +required
	// +kubebuilder:validation:MinLength=16
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{8}T[0-9]{6}Z$`
	Slot string `json:"slot,omitempty"`
}

// KOKEtcdSnapshotStatus is what is known of the snapshot.
//
// +kubebuilder:validation:MinProperties=1
type KOKEtcdSnapshotStatus struct {
	// conditions are Stored and Verified.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// slot is the name of the snapshot in its store.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Slot string `json:"slot,omitempty"`

	// tenantUID is the UID of the namespace kube-system of the tenant that the snapshot is of.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TenantUID string `json:"tenantUID,omitempty"`

	// revision is the revision of etcd up to which the snapshot has everything.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// databaseBytes is the size of the database that etcd sent.
	// +optional
	DatabaseBytes int64 `json:"databaseBytes,omitempty"`
	// storedBytes is the size of the object in the store.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`

	// sha256 is the hash of the object in the store, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`

	// etcdVersion is that of the member that the snapshot was taken of.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	EtcdVersion string `json:"etcdVersion,omitempty"`

	// encryptionKeyID names the key by which the tenant's API servers encrypted what they stored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	EncryptionKeyID string `json:"encryptionKeyID,omitempty"`

	// members are those whose volumes have the snapshot, where the store is perMember.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Members []string `json:"members,omitempty"`

	// takenAt is when the snapshot was taken.
	// +optional
	TakenAt metav1.Time `json:"takenAt,omitempty,omitzero"`
	// verifiedAt is when the snapshot was restored as a trial, and was what its member had.
	// +optional
	VerifiedAt metav1.Time `json:"verifiedAt,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=koketcdsnapshots,shortName=kokes,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Control Plane",type=string,JSONPath=`.spec.controlPlaneName`,description="the KOKControlPlane that the snapshot is of"
// +kubebuilder:printcolumn:name="Taken",type=date,JSONPath=`.status.takenAt`,description="when the snapshot was taken"
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="Verified")].status`,description="whether an etcd started from it"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="revision of etcd"
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.storedBytes`,description="size in the store"

// KOKEtcdSnapshot is a snapshot of the data etcd of a tenant, in a store. The store is the truth: the object is made again
// from its listing.
type KOKEtcdSnapshot struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says which snapshot this is.
	// +required
	Spec KOKEtcdSnapshotSpec `json:"spec,omitempty,omitzero"`

	// status is what is known of the snapshot.
	// +optional
	Status KOKEtcdSnapshotStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KOKEtcdSnapshotList is a list of KOKEtcdSnapshots.
type KOKEtcdSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []KOKEtcdSnapshot `json:"items"`
}

// GetConditions returns the conditions, as Cluster API's conditions package wants it.
func (s *KOKEtcdSnapshot) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's conditions package wants it.
func (s *KOKEtcdSnapshot) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}
