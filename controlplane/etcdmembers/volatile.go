package etcdmembers

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// holdsStoredRendering reports whether what is stored of a volatile etcd cluster is held, because what is wanted would replace
// its pods, and notes it. Pods may be older than the stored rendering if that was adopted before bootstrap ended: they stay, and
// nothing is held.
func (m *Members) holdsStoredRendering(ctx context.Context, component components.Component, in *components.Input, stored []client.Object) (bool, error) {
	older, err := m.hasOlderPods(ctx, component.Name)
	if err != nil {
		return false, err
	}
	replaces, err := m.replacesPods(ctx, component, in, stored)
	if err != nil {
		return false, err
	}
	if older || replaces {
		m.Note(fmt.Errorf("%s stays as it is, for its members keep their data in their pods (storage.type is %s), and a change would replace them: "+
			"take back what changes etcd, spec.rollout.after too, or move to a new cluster with storage.type %s",
			component.Name, controlplanev1.EtcdStorageEmptyDir, controlplanev1.EtcdStoragePersistentVolumeClaim))
	}
	return replaces && !older, nil
}

// hasOlderPods reports whether a pod that stays is not as its StatefulSet wants it.
func (m *Members) hasOlderPods(ctx context.Context, component string) (bool, error) {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: m.Cluster.Namespace, Name: names.Object(m.Cluster.Name, component)}
	if err := m.Host.Client.Get(ctx, key, set); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read StatefulSet %s: %w", key, err)
	}
	if set.Status.UpdateRevision == "" || set.Status.ObservedGeneration != set.Generation {
		return false, nil
	}
	return slices.ContainsFunc(m.Pods[component], func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && !hostpods.Ended(&pod) && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
	}), nil
}

// replacesPods reports whether the rendering that would be adopted now has another template of pods than the
// stored one. What cannot be rendered replaces none.
func (m *Members) replacesPods(ctx context.Context, component components.Component, in *components.Input, stored []client.Object) (bool, error) {
	if len(stored) == 0 {
		return false, nil
	}
	current, err := m.Adopted(ctx, component, in)
	if current || err != nil {
		return false, err
	}
	wanted, err := component.Rendered(in)
	if err != nil || m.Unsupported != nil {
		return false, nil //nolint:nilerr // Whoever adopts it says so.
	}
	return !equality.Semantic.DeepEqual(templateOf(stored), templateOf(wanted)), nil
}

// templateOf is the StatefulSet's template of pods among objects; nil for none.
func templateOf(objects []client.Object) any {
	i := slices.IndexFunc(objects, func(object client.Object) bool { _, ok := object.(*appsv1.StatefulSet); return ok })
	if i < 0 {
		return nil
	}
	return objects[i].(*appsv1.StatefulSet).Spec.Template
}
