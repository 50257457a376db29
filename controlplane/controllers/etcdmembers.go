package controllers

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/volumes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// stateOf is what a component's workload says of its pods. How many members of etcd must be ready goes by
// those that vote: of an even number, which there is only while it changes, one may have been promoted a
// moment ago.
func (s *scope) stateOf(component string, workload client.Object) *workloads.State {
	state := workloads.StateOf(workload)
	if !etcdclusters.Bootstrapped(s.controlPlane, component) || state == nil {
		return state
	}
	if s.volatile(component) {
		state.Updated = max(state.Updated, state.Current) // None will be replaced, so nobody waits for it.
	}
	if count := etcdclusters.Voters(s.controlPlane, component); count > 0 {
		state.Needed = (count + 1) / 2
	}
	return state
}

// etcdPods is how many pods an etcd cluster has: one for each member that etcd lists. As long as it never
// listed any, one for each member that it may have, and one alone where that restores a snapshot.
func etcdPods(s *scope, cluster etcdcomponent.Cluster) int32 {
	if etcdclusters.Seeded(s.controlPlane, cluster.Component) {
		return 1
	}
	pods := 0
	if etcdclusters.Bootstrapped(s.controlPlane, cluster.Component) {
		for _, member := range etcdclusters.Status(s.controlPlane, cluster.Component).Members {
			pods = max(pods, cluster.Ordinal(&s.input, member.Name)+1)
		}
	}
	if pods == 0 {
		pods = len(cluster.Members(&s.input))
	}
	return int32(pods) //nolint:gosec // A handful.
}

// renderedEtcd is the rendering of an etcd cluster with as many pods as it has members. The stored rendering has the
// number with which the cluster was bootstrapped, and the size of volumes: see asBootstrapped. While renderings are held, the
// stored one is not replaced.
func renderedEtcd(ctx context.Context, s *scope, cluster etcdcomponent.Cluster, held bool) ([]client.Object, error) {
	component := cluster.AsComponent()
	stored, err := s.revisions.Newest(ctx, s.key, component.Name)
	if err != nil {
		return nil, err
	}
	in := asBootstrapped(s, cluster, stored)
	held = held || s.refused != nil || s.evenVoters(component.Name)
	if !held && s.volatile(component.Name) {
		if held, err = holdsStoredRendering(ctx, s, component, in, stored); err != nil {
			return nil, err
		}
	}
	objects, err := rendered(ctx, s, component, in, held)
	if err != nil {
		return nil, err
	}
	pods, guarded := etcdPods(s, cluster), false
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			o.Spec.Replicas = &pods
			if first := s.firstPod(cluster); first > 0 {
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
	if s.lacksVoters(component.Name) {
		spareNone(objects)
	}
	return objects, nil
}

// firstPod is the ordinal of the first pod of an etcd cluster: that of the one member with which it is founded anew, else 0.
func (s *scope) firstPod(cluster etcdcomponent.Cluster) int32 {
	if cluster.Component != names.EtcdData || !s.rebuild.Founding() || s.rebuild.Founded(s.controlPlane) {
		return 0
	}
	return int32(cluster.Ordinal(&s.input, s.rebuild.Record.Seed)) //nolint:gosec // A handful.
}

// spareNone has a PodDisruptionBudget let no pod be evicted.
func spareNone(objects []client.Object) {
	for _, object := range objects {
		if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
			budget.Spec.MinAvailable, budget.Spec.MaxUnavailable = nil, ptr.To(intstr.FromInt32(0))
		}
	}
}

// lacksVoters reports whether fewer members vote than the spec asks for: each may be what the quorum needs.
func (s *scope) lacksVoters(component string) bool {
	count := etcdclusters.Voters(s.controlPlane, component)
	return count > 0 && count < ptr.Deref(etcdclusters.Spec(s.controlPlane, component).Replicas, 1)
}

// asBootstrapped is the input with as many members as the stored rendering of an etcd cluster has, and with volumes of its size:
// another number and another size are no new rendering, and nobody can change the size in a StatefulSet.
func asBootstrapped(s *scope, cluster etcdcomponent.Cluster, stored []client.Object) *components.Input {
	in := &s.input
	for _, object := range stored {
		if workload, ok := object.(*appsv1.StatefulSet); ok {
			in = cluster.WithReplicas(in, ptr.Deref(workload.Spec.Replicas, 1))
		}
	}
	if size := volumeSize(stored); size != nil {
		in = cluster.WithVolumeSize(in, *size)
	}
	return in
}

// evenVoters reports whether an etcd cluster has an even number of voters, which there is only on the way to another:
// one more must not restart.
func (s *scope) evenVoters(component string) bool {
	count := etcdclusters.Voters(s.controlPlane, component)
	return count > 0 && count%2 == 0
}

// rememberMembers keeps addresses, certificates and files of members beyond those that the spec asks for
// until nothing of them is left. Services are what tells of them: present ones, and those that were recorded.
func rememberMembers(ctx context.Context, s *scope, recorded map[string]string, present map[string]*corev1.Service) error {
	s.input.EtcdMembers = map[string]int32{}
	for _, cluster := range etcdclusters.All {
		wanted, members := len(cluster.Wanted(&s.input)), 0
		for name := range recorded {
			members = max(members, cluster.Ordinal(&s.input, name)+1)
		}
		for name := range present {
			members = max(members, cluster.Ordinal(&s.input, name)+1)
		}
		if members <= wanted {
			continue
		}
		left, err := leftOf(ctx, s, cluster, wanted)
		if err != nil {
			return err
		}
		if left {
			s.input.EtcdMembers[cluster.Component] = int32(members) //nolint:gosec // A handful.
		}
	}
	return nil
}

// leftOf reports whether anything is left, or may be, of members beyond a number.
func leftOf(ctx context.Context, s *scope, cluster etcdcomponent.Cluster, wanted int) (bool, error) {
	listed := etcdclusters.Status(s.controlPlane, cluster.Component).Members
	if len(listed) != wanted || etcdclusters.Voters(s.controlPlane, cluster.Component) != int32(wanted) { //nolint:gosec // A handful.
		return true, nil
	}
	beyond := func(name string) bool { return cluster.Ordinal(&s.input, name) >= wanted }
	if slices.ContainsFunc(listed, func(m controlplanev1.EtcdMemberStatus) bool { return beyond(m.Name) }) {
		return true, nil
	}
	// A cache may not show what was just made, and addresses that are forgotten here do not come back.
	pods, err := hostpods.List(ctx, s.host.Live, s.key)
	if err != nil {
		return false, err
	}
	claims, err := operator.MembersWithVolume(ctx, s.host.Live, s.key)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods[cluster.Component], func(pod corev1.Pod) bool { return beyond(pod.Name) }) ||
		slices.ContainsFunc(claims, beyond), nil
}

// deleteServicesOfRemoved deletes the Services of members that were removed.
func deleteServicesOfRemoved(ctx context.Context, s *scope, present map[string]*corev1.Service) error {
	for name, service := range present {
		for _, cluster := range etcdclusters.All {
			if cluster.Ordinal(&s.input, name) < len(cluster.Members(&s.input)) {
				continue
			}
			if err := s.host.Client.Delete(ctx, service, client.Preconditions{UID: &service.UID}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete Service %s of a former etcd member: %w", client.ObjectKeyFromObject(service), err)
			}
			s.host.Applier.Dismiss("Service", service)
		}
	}
	return nil
}

// resizeVolumes makes the volume claims of an etcd cluster ask for the size in spec, if the StatefulSet among objects has another one.
// Nobody can change a StatefulSet's size, so the claims of new members begin with it. It notes what the host cluster refuses.
func resizeVolumes(ctx context.Context, s *scope, cluster etcdcomponent.Cluster, objects []client.Object) error {
	founded, wanted := volumeSize(objects), etcdclusters.Spec(s.controlPlane, cluster.Component).Storage.Size
	if founded == nil || wanted == nil || founded.Cmp(*wanted) == 0 {
		return nil
	}
	problems, err := volumes.Resize(ctx, s.host, s.key, cluster.Component, "spec.etcd."+cluster.Field+".storage.size", *wanted)
	for _, problem := range problems {
		s.note(problem)
	}
	return err
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
