// Package v1alpha1 holds the API of the IDC infrastructure provider: an inventory of hosts that stand
// in a data centre, and the machines and clusters that use them. It follows Cluster API's contracts
// v1beta2 for infrastructure clusters and machines.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1alpha1
