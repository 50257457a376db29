package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// versionOf is the Kubernetes version that a pod runs; empty for one that has none, or has ended.
func versionOf(pod *corev1.Pod) string {
	if hostpods.Ended(pod) {
		return ""
	}
	return strings.ReplaceAll(pod.Labels[names.VersionLabel], "_", "+")
}

// olderPods lets an upgrade wait for a pod of a component that runs another version than the wanted one. A pod that
// stops serves until it has, and a Deployment does not count it any more.
func olderPods(s *scope, component string) flow.Result {
	if !s.upgrading() {
		return flow.Done()
	}
	for i := range s.snapshot.Pods[component] {
		pod := &s.snapshot.Pods[component][i]
		if version := versionOf(pod); version != "" && version != s.input.Version {
			return flow.Waiting(fmt.Sprintf("others are upgraded when %s is: pod %s still runs %s", component, pod.Name, version))
		}
	}
	return flow.Done()
}

// podProblem says why a pod is not ready, in the words of whoever knows: the scheduler, the
// kubelet, or the last lines of the container. Empty for a ready pod.
func podProblem(pod *corev1.Pod) string {
	if hostpods.Ready(pod) {
		return ""
	}
	where := "pod " + pod.Name
	if pod.Spec.NodeName != "" {
		where += " on " + pod.Spec.NodeName
	}
	if scheduled := hostpods.Condition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return fmt.Sprintf("%s is not scheduled: %s", where, scheduled.Message)
	}
	// A component starts when its sidecars have started.
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if problem := containerProblem(status); problem != "" && !status.Ready {
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
	const limit = 300
	if len(message) > limit {
		message = strings.ToValidUTF8(message[:limit], "") + "…"
	}
	return message
}

// creationPatience is how old a workload without its pods must be before events are asked.
const creationPatience = 5 * time.Second

// creationFailures says why a workload's pods do not come into being, such as a quota or the
// namespace's pod security level. A Deployment says so itself, of the others only events tell.
func creationFailures(ctx context.Context, s *scope, workloads map[string]client.Object, now time.Time) (map[string]string, error) {
	failures := map[string]string{}
	for component, workload := range workloads {
		state := stateOf(workload)
		if state == nil || !state.observed || state.current >= state.desired ||
			now.Sub(workload.GetCreationTimestamp().Time) < creationPatience {
			continue
		}
		if deployment, ok := workload.(*appsv1.Deployment); ok {
			for _, c := range deployment.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
					failures[component] = c.Message
				}
			}
			continue
		}
		list := &corev1.EventList{} // No cache holds Events.
		if err := s.host.Live.List(ctx, list, client.InNamespace(workload.GetNamespace()), client.MatchingFields{
			"involvedObject.uid": string(workload.GetUID()), "reason": "FailedCreate",
		}); err != nil {
			return nil, fmt.Errorf("list events of %s %s: %w", component, client.ObjectKeyFromObject(workload), err)
		}
		if len(list.Items) > 0 {
			latest := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
			failures[component] = latest.Message
		}
	}
	return failures, nil
}
