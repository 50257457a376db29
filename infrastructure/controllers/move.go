package controllers

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// movedAway reports whether clusterctl copied an object to another management cluster and deletes it here. From then on the
// other management cluster manages its host.
func movedAway(object client.Object) bool {
	_, moved := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return moved
}

// pausingCluster returns a paused Cluster that keeps a host without a machine from being cleaned; nil for none. clusterctl
// pauses all Clusters of a namespace, but no hosts. While it moves objects, both management clusters have the IDCHost, and
// neither may clean a host that the other one may have given to a machine. Any Cluster that is not paused ends the pause.
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
	if paused != nil {
		return paused, nil
	}
	return r.clusterThatWent(ctx, host)
}

// clusterThatWent stands for the Clusters that paused a host's clean-up and then went without unpausing it; nil for none.
// clusterctl deletes Clusters and hosts in any order. Once the last Cluster is gone, a host without the annotation has only
// its Paused condition to tell that it was moved. The API server has both of them before the cache does.
func (r *HostReconciler) clusterThatWent(ctx context.Context, host *infrav1.IDCHost) (*clusterv1.Cluster, error) {
	live := &infrav1.IDCHost{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(host), live)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read whether the host was moved: %w", err)
	}
	if err == nil && !movedAway(live) && !pausedByCluster(live) {
		return nil, nil
	}
	return &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}, nil
}

// pausedByCluster reports whether the last reconcile found a paused Cluster. Cluster API's message tells this from a pause by
// the host's own annotation.
func pausedByCluster(host *infrav1.IDCHost) bool {
	condition := conditions.Get(host, clusterv1.PausedCondition)
	return condition != nil && condition.Status == metav1.ConditionTrue && strings.Contains(condition.Message, "Cluster spec.paused")
}

// waitsForCleanUp reports whether the host has to be cleaned up once it answers, because its machine was
// deleted while the host was away.
func waitsForCleanUp(host *infrav1.IDCHost) bool {
	return host.Spec.Claim == nil && host.Spec.Quarantine != nil && host.Spec.Quarantine.InstanceID != ""
}
