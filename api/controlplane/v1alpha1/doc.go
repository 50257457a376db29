// Package v1alpha1 holds the API of the KOK control plane provider: a tenant's
// control plane that runs as pods of a host cluster. It follows Cluster API's
// control plane contract v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1alpha1
