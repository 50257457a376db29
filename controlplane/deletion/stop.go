package deletion

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// stoppedKinds are the kinds of what runs, in the order in which they are deleted: a workload that is left makes its pods again.
var stoppedKinds = [][]schema.GroupVersionKind{{
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
}, {
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
}, {
	corev1.SchemeGroupVersion.WithKind("Pod"),
}}

// Stop deletes what runs of some components of a tenant, and nothing else: their data, Services, files and keys stay. The
// workloads are those of these components, which may have lost their labels. Pods that are left stop later.
func Stop(ctx context.Context, host *hostclusters.Host, cluster client.ObjectKey, components map[string]client.Object) error {
	ofThese := func(object *metav1.PartialObjectMetadata) bool {
		for component := range components {
			if object.Labels[names.ComponentLabel] == component || object.Name == names.Object(cluster.Name, component) {
				return true
			}
		}
		return false
	}
	for _, kinds := range stoppedKinds {
		if _, err := deleteKinds(ctx, host, cluster, kinds, components, ofThese); err != nil {
			return err
		}
	}
	return nil
}
