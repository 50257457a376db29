package etcdmembers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
)

// renderingOf is the rendering of an etcd cluster with as many pods as it has members. The stored rendering has the
// number with which the cluster was bootstrapped, and the size of volumes: see asBootstrapped. While renderings are held, the
// stored one is not replaced.
func (m *Members) renderingOf(ctx context.Context, cluster etcdcomponent.Cluster, held bool) ([]client.Object, error) {
	component := cluster.AsComponent()
	stored, err := m.Revisions.Newest(ctx, m.Cluster, component.Name)
	if err != nil {
		return nil, err
	}
	in := asBootstrapped(m.Input, cluster, stored)
	held = held || m.Refused != nil || etcdclusters.EvenVoters(m.ControlPlane, component.Name)
	if !held && etcdclusters.Volatile(m.ControlPlane, component.Name) {
		if held, err = m.holdsStoredRendering(ctx, component, in, stored); err != nil {
			return nil, err
		}
	}
	objects, err := m.Rendering(ctx, component, in, held)
	if err != nil {
		return nil, err
	}
	pods, first := m.podsOf(cluster)
	guarded := false
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			o.Spec.Replicas = &pods
			if first > 0 {
				o.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first}
			}
		case *policyv1.PodDisruptionBudget:
			guarded = true
		}
	}
	if !guarded {
		budget := cluster.DisruptionBudget(in, pods)
		if patched, err := component.Patched(in, budget); err == nil {
			budget = patched
		}
		objects = append(objects, budget...)
	}
	if etcdclusters.LackVoters(m.ControlPlane, component.Name) {
		spareNone(objects)
	}
	return objects, nil
}

// podsOf is how many pods an etcd cluster has, and the ordinal of the first one. One that is restored in place has one
// pod at first, that of the member with which it begins.
func (m *Members) podsOf(cluster etcdcomponent.Cluster) (pods, first int32) {
	pods = etcdclusters.Pods(m.ControlPlane, cluster, m.Input)
	switch {
	case !cluster.Restorable() || !m.Restore.Ever(m.ControlPlane):
		return pods, 0
	case m.Restore.Founding() && !m.Restore.Founded(m.ControlPlane):
		return pods, int32(cluster.Ordinal(m.Input, m.Restore.Record.Seed)) //nolint:gosec // A handful.
	}
	first = etcdclusters.FirstPod(m.ControlPlane, cluster, m.Input)
	return pods - first, first
}

// spareNone has a PodDisruptionBudget let no pod be evicted.
func spareNone(objects []client.Object) {
	for _, object := range objects {
		if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
			budget.Spec.MinAvailable, budget.Spec.MaxUnavailable = nil, ptr.To(intstr.FromInt32(0))
		}
	}
}

// asBootstrapped is the input with as many members as the stored rendering of an etcd cluster has, and with its volumes, of its size:
// another number and another size are no new rendering, and nobody can change the volumes of a StatefulSet.
func asBootstrapped(in *components.Input, cluster etcdcomponent.Cluster, stored []client.Object) *components.Input {
	for _, object := range stored {
		if workload, ok := object.(*appsv1.StatefulSet); ok {
			in = cluster.WithReplicas(in, ptr.Deref(workload.Spec.Replicas, 1))
			in = cluster.WithSnapshotVolumes(in, etcdcomponent.SnapshotVolumes(workload))
		}
	}
	if size := volumeSize(stored); size != nil {
		in = cluster.WithVolumeSize(in, *size)
	}
	return in
}

// volumeSize is the size of volumes in the StatefulSet among objects; nil if it has none.
func volumeSize(objects []client.Object) *resource.Quantity {
	for _, object := range objects {
		if set, ok := object.(*appsv1.StatefulSet); ok {
			return etcdcomponent.VolumeSize(set)
		}
	}
	return nil
}

// snapshotVolumes are the volumes for snapshots of the StatefulSet among objects; nil if it has none.
func snapshotVolumes(objects []client.Object) *controlplanev1.PerMemberStoreSpec {
	for _, object := range objects {
		if set, ok := object.(*appsv1.StatefulSet); ok {
			return etcdcomponent.SnapshotVolumes(set)
		}
	}
	return nil
}
