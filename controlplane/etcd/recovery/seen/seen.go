// Package seen reads from a pod's status what prepare saw in the data directory of the pod's member. It is pure.
package seen

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
)

// Data is what is known of a member's data by its pod. Only data that are bad for good are Unreadable: a member that was not
// permitted to read them, or whose disk gave errors, is Unknown, as is one of whom nothing was told, or nothing that can be
// read.
func Data(pod *corev1.Pod) recovery.Data {
	look := lastLook(pod)
	if look == nil {
		return recovery.Unknown
	}
	found, err := facts.Decode(look.Message)
	switch {
	case err != nil || found.State == facts.Unreadable && !found.Damaged():
		return recovery.Unknown
	case readySince(pod, look):
		return recovery.Stale
	}
	return map[facts.State]recovery.Data{
		facts.Empty: recovery.Empty, facts.Present: recovery.Present, facts.Unreadable: recovery.Unreadable, facts.NoSpace: recovery.NoSpace,
	}[found.State]
}

// lastLook is how prepare ended; nil when that is not known. One that failed is made anew by kubelet, and what it said counts
// until the next one ends, for etcd has not run since. One that succeeded does not: etcd ran before the pod's containers
// were made anew.
func lastLook(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	i := slices.IndexFunc(pod.Status.InitContainerStatuses, func(status corev1.ContainerStatus) bool { return status.Name == facts.Container })
	if i < 0 {
		return nil
	}
	status := pod.Status.InitContainerStatuses[i]
	if ended := status.State.Terminated; ended != nil {
		return ended
	}
	if ended := status.LastTerminationState.Terminated; ended != nil && ended.ExitCode != 0 {
		return ended
	}
	return nil
}

// readySince reports whether the pod is ready, or may have been since a look ended. The times are in seconds, and kubelet
// needs longer to have a pod ready: a change in the same second was before the look.
func readySince(pod *corev1.Pod, look *corev1.ContainerStateTerminated) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue || condition.LastTransitionTime.After(look.FinishedAt.Time)
		}
	}
	return false
}
