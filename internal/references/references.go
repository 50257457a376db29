// Package references says what the references in Cluster API's objects lead to: to kinds of this project, or to
// those of other providers.
package references

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// HasKOKControlPlane reports whether the control plane of a Cluster is a KOKControlPlane.
func HasKOKControlPlane(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.ControlPlaneRef
	return ref.Kind == "KOKControlPlane" && ref.APIGroup == controlplanev1.GroupVersion.Group
}

// HasKOKConfig reports whether a Machine is bootstrapped by a KOKConfig.
func HasKOKConfig(machine *clusterv1.Machine) bool {
	ref := machine.Spec.Bootstrap.ConfigRef
	return ref.Kind == "KOKConfig" && ref.APIGroup == bootstrapv1.GroupVersion.Group
}
