package watches

import (
	"context"

	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// ControlPlaneRefIndex finds Clusters by the name of the KOKControlPlane that they name.
const ControlPlaneRefIndex = "spec.controlPlaneRef.name"

// ControlPlaneRefOf gives the index its value of a Cluster; none for one of another provider.
func ControlPlaneRefOf(object client.Object) []string {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok || cluster.Spec.ControlPlaneRef.Kind != "KOKControlPlane" {
		return nil
	}
	return []string{cluster.Spec.ControlPlaneRef.Name}
}

// OfCluster finds the control plane that a Cluster names.
func OfCluster(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range ControlPlaneRefOf(object) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}})
	}
	return requests
}

// OfSnapshot finds the control plane of a snapshot.
func OfSnapshot(_ context.Context, object client.Object) []reconcile.Request {
	snapshot, ok := object.(*controlplanev1.KOKEtcdSnapshot)
	if !ok || snapshot.Spec.ControlPlaneName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: snapshot.Namespace, Name: snapshot.Spec.ControlPlaneName}}}
}

// Finder finds the control planes of objects in host clusters.
type Finder struct {
	// Management reads Clusters and control planes, and Host pods in the management cluster as a host cluster. Both are caches.
	Management, Host client.Reader
}

// OfHostNode finds the control planes that have a member of etcd on a node.
func (f *Finder) OfHostNode(ctx context.Context, node client.Object) []reconcile.Request {
	pods, err := cordon.Members(ctx, f.Host, node.GetName())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look for members of etcd on a node", "Node", klog.KRef("", node.GetName()))
	}
	var requests []reconcile.Request
	for i := range pods {
		requests = append(requests, f.OfHostObject(ctx, &pods[i])...)
	}
	return requests
}

// OfHostObject finds the control plane of an object in the host cluster by its labels:
// through the Cluster that they name or, when that is gone, by the control plane's own label.
func (f *Finder) OfHostObject(ctx context.Context, object client.Object) []reconcile.Request {
	key := names.Tenant(object)
	if key.Name == "" {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := f.Management.Get(ctx, key, cluster); err == nil {
		return OfCluster(ctx, cluster)
	}
	list := &controlplanev1.KOKControlPlaneList{}
	if err := f.Management.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the control planes of a cluster", "Cluster", klog.KRef(key.Namespace, key.Name))
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
