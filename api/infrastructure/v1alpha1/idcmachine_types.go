package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// IDCMachineFinalizer holds an IDCMachine back until its host is clean, or in quarantine.
const IDCMachineFinalizer = "infrastructure.cluster.x-k8s.io/idcmachine"

// HostRequirements say which hosts a machine may have. Its failure domain is in the Machine.
type HostRequirements struct {
	// hostSelector chooses IDCHosts of this namespace by their labels; empty for all.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`

	// minCapacity is the least that the host must have, for example cpu: "8", memory: 16Gi.
	// +optional
	MinCapacity corev1.ResourceList `json:"minCapacity,omitempty"`
}

// IDCMachineSpec says which host a machine wants, and which it has.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)",message="providerID is immutable once set: the Node has it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.instanceID) || (has(self.instanceID) && self.instanceID == oldSelf.instanceID)",message="instanceID is immutable once set: the host's claim has it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || (has(self.hostRef) && self.hostRef == oldSelf.hostRef)",message="hostRef is immutable once providerID is set: the machine runs on that host"
// +kubebuilder:validation:XValidation:rule="has(self.hostSelector) == has(oldSelf.hostSelector) && (!has(self.hostSelector) || self.hostSelector == oldSelf.hostSelector)",message="hostSelector is immutable: the host is chosen once; create a new Machine for another host"
// +kubebuilder:validation:XValidation:rule="has(self.minCapacity) == has(oldSelf.minCapacity) && (!has(self.minCapacity) || self.minCapacity == oldSelf.minCapacity)",message="minCapacity is immutable: the host is chosen once; create a new Machine for another host"
type IDCMachineSpec struct {
	HostRequirements `json:",inline"`

	// providerID is idc://<namespace>/<name of the IDCHost>/<instanceID>, and the same on the Node. The controller
	// writes it. A providerID that an older release wrote lacks the last part.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// hostRef names the IDCHost that the machine wants or has. The machine has the host when the host's spec.claim names
	// the machine, too. The controller writes it.
	// +optional
	HostRef *HostReference `json:"hostRef,omitempty"`

	// instanceID identifies the machine on its host, as cloud-init's instance-id. The controller makes
	// it once. Unlike a UID it stays the same when clusterctl moves the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	InstanceID string `json:"instanceID,omitempty"`
}

// HostReference names an IDCHost in the same namespace.
type HostReference struct {
	// name of the IDCHost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IDCMachineStatus is the observed state of a machine.
type IDCMachineStatus struct {
	// conditions say what is true of the machine; every message says what is wrong and the way out.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API how far the first provisioning is.
	// +optional
	Initialization IDCMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses are those of the host: its name as a machine, and spec.address and status.addresses of the IDCHost.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the failure domain that the host stands in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// observedGeneration is the generation of spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// IDCMachineInitializationStatus is part of the contract for infrastructure machines.
// +kubebuilder:validation:MinProperties=1
type IDCMachineInitializationStatus struct {
	// provisioned is true once cloud-init made a node of the host.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=idcmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.metadata.ownerReferences[?(@.kind=="Machine")].name`,priority=1
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.hostRef.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="FailureDomain",type=string,JSONPath=`.status.failureDomain`
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IDCMachine is the infrastructure of a Machine: a host of the data centre, reserved and bootstrapped.
type IDCMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which host the machine wants, and which it has.
	// +optional
	Spec IDCMachineSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status IDCMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (m *IDCMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *IDCMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// IDCMachineList is a list of IDCMachines.
type IDCMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IDCMachine `json:"items"`
}
