package controllers

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// movedAway reports whether clusterctl copied an object to another management cluster and deletes it here. From then on the
// other management cluster manages its host. The cache may still have the paused Cluster, which is deleted last.
func movedAway(object client.Object) bool {
	_, moved := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return moved
}

// pausingCluster returns a paused Cluster that keeps a host without a machine from being cleaned; nil for none. clusterctl
// pauses all Clusters of a namespace, but no hosts. While it moves objects, both management clusters have the IDCHost, and
// neither may clean a host that the other one may have given to a machine.
func (r *HostReconciler) pausingCluster(ctx context.Context, host *infrav1.IDCHost) (*clusterv1.Cluster, error) {
	if !waitsForCleanUp(host) {
		return nil, nil
	}
	list := &clusterv1.ClusterList{}
	if err := r.Client.List(ctx, list, client.InNamespace(host.Namespace)); err != nil {
		return nil, fmt.Errorf("list the Clusters that may pause the host's clean-up: %w", err)
	}
	var paused *clusterv1.Cluster
	for i := range list.Items {
		if !ptr.Deref(list.Items[i].Spec.Paused, false) {
			return nil, nil
		}
		paused = &list.Items[i]
	}
	return paused, nil
}

// waitsForCleanUp reports whether the host has to be cleaned up once it answers, because its machine was
// deleted while the host was away.
func waitsForCleanUp(host *infrav1.IDCHost) bool {
	return host.Spec.Claim == nil && host.Spec.Quarantine != nil && host.Spec.Quarantine.InstanceID != ""
}
