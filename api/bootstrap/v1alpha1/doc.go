// Package v1alpha1 holds the API of the KOK bootstrap provider: how a machine becomes a worker that
// reaches its tenant's API servers through a load balancer of its own. It follows Cluster API's
// bootstrap contract v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1alpha1
