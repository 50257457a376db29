// Package watches says what is watched for KOKControlPlanes in host clusters, what caches hold of it, and which control plane an object
// wakes.
package watches

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// HostKinds are the kinds that the controller makes in the host cluster and watches there.
func HostKinds() []client.Object {
	return []client.Object{
		&appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}, &appsv1.ControllerRevision{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Pod{},
	}
}

// HostCache makes a cache hold only the controller's own objects of kinds that others make, too, and of all Nodes whether they are
// cordoned. It trims each object to what reconciles read. It does not hold the ControllerRevisions that StatefulSets and DaemonSets make of
// our pods, although they have our label.
func HostCache() map[client.Object]cache.ByObject {
	own := labels.SelectorFromSet(labels.Set{names.ManagedByLabel: names.ManagedBy})
	kinds := map[client.Object]cache.ByObject{}
	for _, kind := range HostKinds() {
		byObject := cache.ByObject{Label: own, Transform: apply.Trim}
		switch kind.(type) {
		case *corev1.Pod:
			byObject.Transform = hostpods.Trim
		case *corev1.Secret:
			byObject.Transform = cache.TransformStripManagedFields()
		case *appsv1.ControllerRevision:
			byObject.Label, byObject.Transform = revision.OfProvider(), cache.TransformStripManagedFields()
		}
		kinds[kind] = byObject
	}
	kinds[&corev1.Node{}] = cache.ByObject{Transform: cordon.Trim}
	return kinds
}
