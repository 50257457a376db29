package hostpods

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPodProblem(t *testing.T) {
	ended := func(reason string, code int32, message string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message}
	}
	long := "the last line " + string(slices.Repeat([]byte("x"), 400))
	for name, test := range map[string]struct {
		pod  func(*corev1.Pod)
		want string
	}{
		"a ready pod": {func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionTrue }, ""},
		"a ready pod that ended before": {func(pod *corev1.Pod) {
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2, LastTerminationState: corev1.ContainerState{Terminated: ended("Error", 1, "no")}}}
		}, ""},
		"a pod without any status": {func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{} }, "pod p on n0 is starting"},
		"a pod that no node takes": {func(pod *corev1.Pod) {
			pod.Spec.NodeName = ""
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: 3 node(s) didn't have free ports"})
		}, "pod p is not scheduled: 0/3 nodes are available: 3 node(s) didn't have free ports"},
		"an image that is not there": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
		}, "pod p on n0 waits: ErrImagePull: not found"},
		"a container that waits and says no more": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
		}, "pod p on n0 waits: ContainerCreating"},
		"a container that crashes": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: ended("Error", 1, "starting\nlisten tcp :20000: address already in use\n\n")}}}
		}, "pod p on n0 ended 3 times, last with Error (exit code 1): listen tcp :20000: address already in use"},
		"a container that just ended for the first time": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended("OOMKilled", 137, "")}}}
		}, "pod p on n0 ended once, last with OOMKilled (exit code 137)"},
		"a container that says very much": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended("Error", 2, long)}}}
		}, "pod p on n0 ended once, last with Error (exit code 2): " + long[:297] + "…"},
		"an image of a sidecar that is not there": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "konnectivity-server",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
		}, "pod p on n0: konnectivity-server waits: ErrImagePull: not found"},
		"a disk that is full, as prepare of etcd found": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", RestartCount: 2,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: ended("Error", 1, `{"state":"NoSpace","message":"7 bytes of room are missing"}`)}}}
		}, "pod p on n0: prepare ended 2 times, last with Error (exit code 1): 7 bytes of room are missing"},
		"a snapshot that cannot be restored": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", RestartCount: 2,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: `{"state":"Empty","seed":"Foreign: it is another tenant's"}`}},
			}}
		}, "pod p on n0: prepare ended 2 times, last with Error (exit code 1): Foreign: it is another tenant's"},
		"a prepare that says nothing that can be read": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare",
				State: corev1.ContainerState{Terminated: ended("StartError", 128, "exec format error")}}}
		}, "pod p on n0: prepare ended once, last with StartError (exit code 128): exec format error"},
		"a sidecar that ended before and is well": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "konnectivity-server", Ready: true, RestartCount: 1,
				LastTerminationState: corev1.ContainerState{Terminated: ended("Error", 1, "no")}}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended("OOMKilled", 137, "")}}}
		}, "pod p on n0 ended once, last with OOMKilled (exit code 137)"},
		"a pod that stops": {func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) }, "pod p on n0 is stopping"},
		"a container that runs and is not ready yet": {func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, "pod p on n0 is starting"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n0"},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
			}
			test.pod(pod)
			if got := Problem(pod); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
