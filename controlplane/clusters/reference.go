package clusters

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// NamesControlPlane reports whether a Cluster names this control plane as its own.
func NamesControlPlane(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) bool {
	return cluster.Spec.ControlPlaneRef.Kind == "KOKControlPlane" && cluster.Spec.ControlPlaneRef.Name == controlPlane.Name
}
