package hostpods

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Version is the Kubernetes version that a pod runs; empty for one that has none, or has ended.
func Version(pod *corev1.Pod) string {
	if Ended(pod) {
		return ""
	}
	return strings.ReplaceAll(pod.Labels[names.VersionLabel], "_", "+")
}

// Problem says why a pod is not ready. It quotes the scheduler, kubelet, or the last lines of the container. Empty for a
// ready pod.
func Problem(pod *corev1.Pod) string {
	if Ready(pod) {
		return ""
	}
	where := "pod " + pod.Name
	if pod.Spec.NodeName != "" {
		where += " on " + pod.Spec.NodeName
	}
	if scheduled := Condition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return fmt.Sprintf("%s is not scheduled: %s", where, scheduled.Message)
	}
	// A component starts when its sidecars have started.
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if problem := initProblem(status); problem != "" && !status.Ready {
			return fmt.Sprintf("%s: %s %s", where, status.Name, problem)
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if problem := containerProblem(&pod.Status.ContainerStatuses[i]); problem != "" {
			return where + " " + problem
		}
	}
	if pod.DeletionTimestamp != nil {
		return where + " is stopping"
	}
	return where + " is starting"
}

// initProblem is containerProblem, with words for people where prepare or salvage of etcd wrote facts.
func initProblem(status *corev1.ContainerStatus) string {
	told := status.DeepCopy()
	for _, ended := range []*corev1.ContainerStateTerminated{told.State.Terminated, told.LastTerminationState.Terminated} {
		if ended == nil || status.Name != facts.Container && status.Name != backup.SalvageContainer {
			continue
		}
		if found, err := facts.Decode(ended.Message); err == nil {
			ended.Message = cmp.Or(found.Seed, found.Message, string(found.State))
		}
	}
	return containerProblem(told)
}

// containerProblem says why a container does not run, or did not before; empty for one without a fault.
func containerProblem(status *corev1.ContainerStatus) string {
	if last := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated); last != nil {
		times := "once"
		if status.RestartCount > 1 {
			times = fmt.Sprintf("%d times", status.RestartCount)
		}
		return strings.TrimSuffix(fmt.Sprintf("ended %s, last with %s (exit code %d): %s",
			times, last.Reason, last.ExitCode, lastLine(last.Message)), ": ")
	}
	if waiting := status.State.Waiting; waiting != nil {
		return strings.TrimSuffix(fmt.Sprintf("waits: %s: %s", waiting.Reason, waiting.Message), ": ")
	}
	return ""
}

// lastLine keeps conditions short: a component's last line says why it gave up.
func lastLine(message string) string {
	message = strings.TrimSpace(message)
	if i := strings.LastIndexByte(message, '\n'); i >= 0 {
		message = message[i+1:]
	}
	return errortext.Short(message, 300)
}
