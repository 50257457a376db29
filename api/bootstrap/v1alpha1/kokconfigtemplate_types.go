package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// KOKConfigTemplateSpec is the desired state of a KOKConfigTemplate.
type KOKConfigTemplateSpec struct {
	// template is what KOKConfigs are made from. Its spec is immutable, because a change would not reach machines that
	// exist.
	// +required
	Template KOKConfigTemplateResource `json:"template,omitempty,omitzero"`
}

// KOKConfigTemplateResource is what KOKConfigs are made from.
// +kubebuilder:validation:MinProperties=1
type KOKConfigTemplateResource struct {
	// metadata is added to the metadata of every KOKConfig.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of every KOKConfig.
	// +optional
	Spec KOKConfigSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kokconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// KOKConfigTemplate is the template of KOKConfigs that a MachineDeployment or a ClusterClass names.
type KOKConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec KOKConfigTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KOKConfigTemplateList is a list of KOKConfigTemplates.
type KOKConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KOKConfigTemplate `json:"items"`
}
