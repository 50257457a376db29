// Package seen reads from a pod's status what prepare saw in the data directory of the pod's member, and how often etcd failed
// to start. It is pure.
package seen

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
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
	case readySince(pod, look), found.State == facts.Present && wasReady(pod):
		return recovery.Stale
	}
	return map[facts.State]recovery.Data{
		facts.Empty: recovery.Empty, facts.Present: recovery.Present, facts.Unreadable: recovery.Unreadable, facts.NoSpace: recovery.NoSpace,
	}[found.State]
}

// Facts are what prepare found in the data directory when it looked last; nil when nothing is known of that, or nothing that can
// be read.
func Facts(pod *corev1.Pod) *facts.Facts {
	look := lastLook(pod)
	if look == nil {
		return nil
	}
	found, err := facts.Decode(look.Message)
	if err != nil {
		return nil
	}
	return &found
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
	ready := hostpods.Condition(pod, corev1.PodReady)
	return ready != nil && (ready.Status == corev1.ConditionTrue || ready.LastTransitionTime.After(look.FinishedAt.Time))
}

// wasReady reports whether a pod that is not ready was so once. Its failures in a row are not known then: data that look well
// are not given up for them, but looked at again in another pod.
func wasReady(pod *corev1.Pod) bool {
	ready := hostpods.Condition(pod, corev1.PodReady)
	return ready != nil && pod.Status.StartTime != nil && ready.LastTransitionTime.After(pod.Status.StartTime.Add(time.Second))
}

// FailedStarts is how often etcd ended, or prepare failed, in a pod that was not ready in between. Of the last end alone the
// time is known: in a pod that was ready before, what ended before that counts too.
func FailedStarts(pod *corev1.Pod) int {
	ready := hostpods.Condition(pod, corev1.PodReady)
	if ready == nil || ready.Status == corev1.ConditionTrue {
		return 0
	}
	failed := 0
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == facts.Container || status.Name == etcd.Container {
			failed += failuresSince(ready.LastTransitionTime, status)
		}
	}
	return failed
}

// BacksOff reports whether etcd failed in a pod, and kubelet waits before it starts etcd again: longer with each failure, up to five minutes.
func BacksOff(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.Name == etcd.Container && status.State.Waiting != nil && status.State.Waiting.Reason == "CrashLoopBackOff"
	})
}

// failuresSince is how often a container failed, by the number of its restarts, if the last time it began after a moment.
func failuresSince(moment metav1.Time, status corev1.ContainerStatus) int {
	failed, last := int(status.RestartCount), status.LastTerminationState.Terminated
	switch ended := status.State.Terminated; {
	case ended != nil && ended.ExitCode == 0 && status.Name == facts.Container:
		return 0 // It looked.
	case ended != nil:
		failed, last = failed+1, ended
	case status.State.Waiting != nil && last != nil:
		failed++ // It ended, and was not restarted yet.
	}
	if last == nil || last.StartedAt.Before(&moment) {
		return 0
	}
	return failed
}
