package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// IDCMachineTemplateSpec is the desired state of an IDCMachineTemplate.
type IDCMachineTemplateSpec struct {
	// template is what IDCMachines are made from.
	// +required
	Template IDCMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// IDCMachineTemplateResource is what IDCMachines are made from.
type IDCMachineTemplateResource struct {
	// metadata is added to the metadata of every IDCMachine.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of every IDCMachine, without what only one machine can have.
	// +required
	Spec *HostRequirements `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=idcmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IDCMachineTemplate is the template of IDCMachines that a MachineDeployment or ClusterClass names.
type IDCMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec IDCMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IDCMachineTemplateList is a list of IDCMachineTemplates.
type IDCMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IDCMachineTemplate `json:"items"`
}
