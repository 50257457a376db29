package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// IDCClusterTemplateSpec is the desired state of an IDCClusterTemplate.
type IDCClusterTemplateSpec struct {
	// template is what IDCClusters are made from.
	// +required
	Template IDCClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// IDCClusterTemplateResource is what IDCClusters are made from.
type IDCClusterTemplateResource struct {
	// metadata is added to the metadata of every IDCCluster.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of every IDCCluster.
	// +required
	Spec *IDCClusterTemplateResourceSpec `json:"spec,omitempty"`
}

// IDCClusterTemplateResourceSpec is IDCClusterSpec without the endpoint, which only one cluster can
// have.
type IDCClusterTemplateResourceSpec struct{}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=idcclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IDCClusterTemplate is the template of IDCClusters that a ClusterClass names.
type IDCClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec IDCClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IDCClusterTemplateList is a list of IDCClusterTemplates.
type IDCClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IDCClusterTemplate `json:"items"`
}
