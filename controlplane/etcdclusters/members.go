package etcdclusters

import (
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// Volatile reports whether an etcd cluster has data that goes with its pods: none is replaced.
func Volatile(controlPlane *controlplanev1.KOKControlPlane, component string) bool {
	return Bootstrapped(controlPlane, component) && Spec(controlPlane, component).Storage.Type == controlplanev1.EtcdStorageEmptyDir
}

// EvenVoters reports whether an etcd cluster has an even number of voters, which there is only on the way to another:
// one more must not restart.
func EvenVoters(controlPlane *controlplanev1.KOKControlPlane, component string) bool {
	count := Voters(controlPlane, component)
	return count > 0 && count%2 == 0
}

// LackVoters reports whether fewer members vote than the spec asks for: each may be what the quorum needs.
func LackVoters(controlPlane *controlplanev1.KOKControlPlane, component string) bool {
	count := Voters(controlPlane, component)
	return count > 0 && count < ptr.Deref(Spec(controlPlane, component).Replicas, 1)
}

// Growing names the component of an etcd cluster that has fewer voters than the spec asks for; it is empty if there is none. API servers
// restart to learn of new members, so they are told once, when all have joined.
func Growing(controlPlane *controlplanev1.KOKControlPlane) string {
	for _, component := range etcdcomponent.Components() {
		if Bootstrapped(controlPlane, component) && Voters(controlPlane, component) < *Spec(controlPlane, component).Replicas {
			return component
		}
	}
	return ""
}

// Pods is how many pods an etcd cluster has: one for each member that etcd lists. As long as it never
// listed any, one for each member that it may have, and one alone where that restores a snapshot.
func Pods(controlPlane *controlplanev1.KOKControlPlane, cluster etcdcomponent.Cluster, in *components.Input) int32 {
	if Seeded(controlPlane, cluster.Component) {
		return 1
	}
	pods := 0
	if Bootstrapped(controlPlane, cluster.Component) {
		for _, member := range Status(controlPlane, cluster.Component).Members {
			pods = max(pods, cluster.Ordinal(in, member.Name)+1)
		}
	}
	if pods == 0 {
		pods = len(cluster.Members(in))
	}
	return int32(pods) //nolint:gosec // A handful.
}

// FirstPod is the ordinal of the first pod of an etcd cluster that was restored in place: that of the first member that etcd lists or that is not
// given up. A StatefulSet makes no pod while a former pod has the name of its first one, and the pod of a member that is given up may never
// stop.
func FirstPod(controlPlane *controlplanev1.KOKControlPlane, cluster etcdcomponent.Cluster, in *components.Input) int32 {
	members := Status(controlPlane, cluster.Component).Members
	for ordinal, name := range cluster.Members(in) {
		listed := slices.ContainsFunc(members, func(m controlplanev1.EtcdMemberStatus) bool { return m.Name == name })
		if listed || !slices.Contains(controlPlane.Spec.Etcd.GivenUp, name) {
			return int32(ordinal) //nolint:gosec // A handful.
		}
	}
	return 0
}

// StateOf is what a component's workload says of its pods. For etcd, the number of members that must be ready follows from its voters.
// Their number is even only while it changes: one of them may have been promoted a moment ago, and does not count.
func StateOf(controlPlane *controlplanev1.KOKControlPlane, component string, workload client.Object) *workloads.State {
	state := workloads.StateOf(workload)
	if !Bootstrapped(controlPlane, component) || state == nil {
		return state
	}
	if Volatile(controlPlane, component) {
		state.Updated = max(state.Updated, state.Current) // No rollout replaces pods that hold etcd's data, so nothing waits for that.
	}
	if count := Voters(controlPlane, component); count > 0 {
		state.Needed = (count + 1) / 2
	}
	return state
}
