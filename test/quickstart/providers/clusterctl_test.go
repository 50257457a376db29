package providers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodProblem(t *testing.T) {
	pod := corev1.Pod{}
	pod.Name = "manager"
	if got := podProblem([]corev1.Pod{pod}); got != "" {
		t.Errorf("a pod without a status has problem %q", got)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	if got, want := podProblem([]corev1.Pod{pod}), ", pod manager: ImagePullBackOff: no such image"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes"}}
	if got, want := podProblem([]corev1.Pod{pod}), ", pod manager is not scheduled: 0/4 nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
