package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// IDCClusterSpec is the desired state of a cluster's infrastructure.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || (has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint)",message="controlPlaneEndpoint is immutable once set: kubeconfigs and certificates name it"
type IDCClusterSpec struct {
	// controlPlaneEndpoint is where the control plane is reached. A person sets it, or leaves it out so that the control
	// plane provider gives the address. This provider makes none.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// APIEndpoint is a reachable Kubernetes API.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.host) && has(self.port)",message="host and port must both be set; leave controlPlaneEndpoint out when the control plane provider gives the address"
type APIEndpoint struct {
	// host is a DNS name or an IP address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is the TCP port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// IDCClusterStatus is the observed state of a cluster's infrastructure.
type IDCClusterStatus struct {
	// conditions say what is true of the cluster's infrastructure.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API how far the first provisioning is.
	// +optional
	Initialization IDCClusterInitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains are those of the IDCHosts in this namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// observedGeneration is the generation of spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// IDCClusterInitializationStatus is part of the contract for infrastructure clusters.
// +kubebuilder:validation:MinProperties=1
type IDCClusterInitializationStatus struct {
	// provisioned is always true: the hosts exist before the cluster, and nothing else is made for it.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=idcclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IDCCluster is the infrastructure of a Cluster whose machines are hosts of a data centre.
type IDCCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec IDCClusterSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status IDCClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (c *IDCCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *IDCCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// IDCClusterList is a list of IDCClusters.
type IDCClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IDCCluster `json:"items"`
}
