package controllers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestStateOfWorkloads(t *testing.T) {
	meta := metav1.ObjectMeta{Generation: 3}
	for name, test := range map[string]struct {
		object client.Object
		want   *workloadState
	}{
		"a StatefulSet needs a quorum": {
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5)},
				Status: appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 1}},
			&workloadState{observed: true, desired: 5, current: 4, updated: 2, ready: 3, available: 1, needed: 3},
		},
		"a StatefulSet of one needs it": {
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)}},
			&workloadState{desired: 1, needed: 1},
		},
		"a DaemonSet needs one pod": {
			&appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{
				ObservedGeneration: 2, DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, UpdatedNumberScheduled: 1, NumberReady: 3, NumberAvailable: 2}},
			&workloadState{desired: 5, current: 4, updated: 1, ready: 3, available: 2, needed: 1},
		},
		"a Deployment needs one pod": {
			&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
				Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 1}},
			&workloadState{observed: true, desired: 2, current: 4, updated: 2, ready: 3, available: 1, needed: 1},
		},
		"another object is no workload": {&corev1.ConfigMap{}, nil},
	} {
		got := stateOf(test.object)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatAWorkloadIsGoodFor(t *testing.T) {
	for name, test := range map[string]struct {
		state           *workloadState
		works, complete bool
		waiting         string
		// upgrading is what it waits for in an upgrade, when that is more.
		upgrading string
	}{
		"none": {state: nil},
		"all pods are ready and up to date": {
			state: &workloadState{observed: true, desired: 3, current: 3, updated: 3, ready: 3, available: 3, needed: 2}, works: true, complete: true},
		"all pods are ready, and one has not been so for long enough": {
			state: &workloadState{observed: true, desired: 3, current: 3, updated: 3, ready: 3, available: 2, needed: 2}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 3 pods 3 are up to date, 2 available, and 3 exist"},
		"enough pods are ready": {
			state: &workloadState{observed: true, desired: 3, current: 3, updated: 3, ready: 2, available: 2, needed: 2}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 3 pods 3 are up to date, 2 available, and 3 exist"},
		"not enough pods are ready": {
			state:   &workloadState{observed: true, desired: 3, current: 3, updated: 3, ready: 1, available: 1, needed: 2},
			waiting: "etcd-data has 1 of 3 pods ready and needs 2"},
		"no pod exists yet": {
			state: &workloadState{desired: 3, needed: 2}, waiting: "etcd-data has 0 of 3 pods ready and needs 2"},
		"its spec changed just now": {
			state: &workloadState{desired: 3, current: 3, updated: 3, ready: 3, available: 3, needed: 2}, works: true,
			waiting: "etcd-data rolls out: 3 of 3 pods are up to date"},
		"pods are replaced one after the other": {
			state: &workloadState{observed: true, desired: 3, current: 3, updated: 1, ready: 2, available: 2, needed: 2}, works: true,
			waiting: "etcd-data rolls out: 1 of 3 pods are up to date"},
		"one pod too many": {
			state: &workloadState{observed: true, desired: 2, current: 3, updated: 3, ready: 3, available: 3, needed: 1}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 2 pods 3 are up to date, 3 available, and 3 exist"},
		"one pod is missing and the others are up to date": {
			state: &workloadState{observed: true, desired: 3, current: 2, updated: 2, ready: 2, available: 2, needed: 2}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 3 pods 2 are up to date, 2 available, and 2 exist"},
		"no node matches": {
			state:   &workloadState{observed: true, needed: 1},
			waiting: "no node of the host cluster matches spec.hosting.nodeSelector, so etcd-data runs nowhere; label host nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.state.works(); got != test.works {
				t.Errorf("works: %t", got)
			}
			if got := test.state.complete(); got != test.complete {
				t.Errorf("complete: %t", got)
			}
			if test.state == nil {
				return
			}
			if got := test.state.waiting("etcd-data", false); got != test.waiting {
				t.Errorf("waits: %q", got)
			}
			if got := test.state.waiting("etcd-data", true); got != cmp.Or(test.upgrading, test.waiting) {
				t.Errorf("in an upgrade it waits: %q", got)
			}
		})
	}
}

func TestReplicasAreThoseOfTheAPIServer(t *testing.T) {
	s, seen := initializedScope(), settled()
	*seen.workloads[names.KubeAPIServer] = workloadState{desired: 9, current: 7, updated: 5, ready: 3, available: 1}
	setReplicas(s, seen)
	status := s.controlPlane.Status
	got := []int32{*status.DesiredReplicas, *status.Replicas, *status.UpToDateReplicas, *status.ReadyReplicas, *status.AvailableReplicas}
	if !slices.Equal(got, []int32{9, 7, 5, 3, 1}) {
		t.Errorf("got %v", got)
	}
	if want := "app.kubernetes.io/component=kube-apiserver,app.kubernetes.io/managed-by=kok-control-plane,cluster.x-k8s.io/cluster-name=blue,kok.cluster.x-k8s.io/cluster-namespace=team"; status.Selector != want {
		t.Errorf("the selector is %s", status.Selector)
	}

	delete(seen.workloads, names.KubeAPIServer)
	setReplicas(s, seen)
	if status := s.controlPlane.Status; *status.Replicas != 0 || *status.DesiredReplicas != 0 {
		t.Error("without a DaemonSet there are replicas")
	}
}

func TestEtcdIsBootstrappedWhenEveryMemberHasJoinedAndForEver(t *testing.T) {
	s := initializedScope()
	s.controlPlane.Status.Etcd = nil
	s.controlPlane.Spec.Etcd.Data.Replicas, s.controlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](1)
	member := func(name string, listed bool) etcd.Member {
		return etcd.Member{Name: name, Listed: listed, Leader: name == "a"}
	}
	for _, step := range []struct {
		name   string
		health *etcd.Health
		want   bool
	}{
		{"nobody was asked", nil, false},
		{"two of three have joined", &etcd.Health{Members: []etcd.Member{member("a", true), member("b", true), member("c", false)}}, false},
		{"one does not answer", &etcd.Health{Members: []etcd.Member{member("a", true), {Name: "b", Listed: true, Err: errors.New("away")}}}, false},
		{"the cluster does not answer", &etcd.Health{Err: errors.New("away"), Members: []etcd.Member{member("a", true)}}, false},
		{"all have joined", &etcd.Health{Members: []etcd.Member{member("a", true), member("b", true), member("c", true)}}, true},
		{"one is away later", &etcd.Health{Members: []etcd.Member{member("a", true), {Name: "b", Listed: true, Err: errors.New("away")}}}, true},
		{"nobody can be asked later", nil, true},
	} {
		seen := settled()
		seen.etcd = map[string]*operator.Report{names.EtcdData: {Health: step.health}}
		setEtcd(s, seen)
		if got := bootstrapped(s.controlPlane, names.EtcdData); got != step.want {
			t.Errorf("%s: bootstrapped is %t", step.name, got)
		}
		if bootstrapped(s.controlPlane, names.EtcdEvents) {
			t.Errorf("%s: events is bootstrapped with data", step.name)
		}
	}
}

func TestEtcdHealthSumsUpReadyMembers(t *testing.T) {
	s, seen := initializedScope(), settled()
	s.controlPlane.Spec.Etcd.Data.Replicas, s.controlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](1)
	seen.workloads = nil
	setEtcd(s, seen)
	if got := s.controlPlane.Status.EtcdHealth; got != "0/3 0/1" {
		t.Errorf("without workloads: %s", got)
	}
	seen.workloads = map[string]*workloadState{names.EtcdData: {desired: 3, ready: 2, needed: 2}}
	setEtcd(s, seen)
	if got := s.controlPlane.Status.EtcdHealth; got != "2/3 0/1" {
		t.Errorf("with two members: %s", got)
	}
}

func TestVersionsStayUntilEveryPodLeftThem(t *testing.T) {
	at := func(seen *observation, component string, versions ...string) {
		seen.pods[component] = nil
		for i, version := range versions {
			pod := readyPod(component, int32(i))
			pod.Labels[names.VersionLabel] = version
			if version == "" {
				delete(pod.Labels, names.VersionLabel)
			}
			seen.pods[component] = append(seen.pods[component], pod)
		}
	}
	version := func(version string, replicas int32) clusterv1.StatusVersion {
		return clusterv1.StatusVersion{Version: version, Replicas: replicas}
	}
	old := []clusterv1.StatusVersion{version("v1.35.4", 3)}
	for name, test := range map[string]struct {
		seen func(*observation)
		want []clusterv1.StatusVersion
	}{
		"all run one version": {func(*observation) {}, []clusterv1.StatusVersion{version("v1.36.3", 3)}},
		"API servers are half way": {func(seen *observation) {
			at(seen, names.KubeAPIServer, "v1.36.3", "v1.35.4", "v1.35.4")
			at(seen, names.KubeControllerManager, "v1.35.4", "v1.35.4")
			at(seen, names.KubeScheduler, "v1.35.4", "v1.35.4")
		}, []clusterv1.StatusVersion{version("v1.35.4", 2), version("v1.36.3", 1)}},
		"only a scheduler is left at the old version": {func(seen *observation) { at(seen, names.KubeScheduler, "v1.35.4", "v1.36.3") },
			[]clusterv1.StatusVersion{version("v1.35.4", 0), version("v1.36.3", 3)}},
		"etcd has no version of Kubernetes": {func(seen *observation) { at(seen, names.EtcdData, "v1.30.0") }, []clusterv1.StatusVersion{version("v1.36.3", 3)}},
		"versions are ordered as versions": {func(seen *observation) { at(seen, names.KubeAPIServer, "v1.36.10", "v1.36.9") },
			[]clusterv1.StatusVersion{version("v1.36.3", 0), version("v1.36.9", 1), version("v1.36.10", 1)}},
		"a version with a build": {func(seen *observation) {
			at(seen, names.KubeAPIServer, "v1.36.3_vendor.1")
			at(seen, names.KubeControllerManager, "v1.36.3_vendor.1")
			at(seen, names.KubeScheduler, "v1.36.3_vendor.1")
		}, []clusterv1.StatusVersion{version("v1.36.3+vendor.1", 1)}},
		"pods that ended are no more than a record": {func(seen *observation) {
			evicted, shutDown := readyPod(names.KubeAPIServer, 3), readyPod(names.KubeScheduler, 2)
			evicted.Labels[names.VersionLabel], evicted.Status = "v1.35.4", corev1.PodStatus{Phase: corev1.PodFailed}
			shutDown.Labels[names.VersionLabel], shutDown.Status = "v1.35.4", corev1.PodStatus{Phase: corev1.PodSucceeded}
			seen.pods[names.KubeAPIServer] = append(seen.pods[names.KubeAPIServer], evicted)
			seen.pods[names.KubeScheduler] = append(seen.pods[names.KubeScheduler], shutDown)
		}, []clusterv1.StatusVersion{version("v1.36.3", 3)}},
		"no pod exists": {func(seen *observation) { seen.pods = nil }, old},
		"no pod says its version": {func(seen *observation) {
			at(seen, names.KubeAPIServer, "")
			at(seen, names.KubeControllerManager, "")
			at(seen, names.KubeScheduler, "")
		}, old},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := initializedScope(), settled()
			s.controlPlane.Status.Versions = slices.Clone(old)
			test.seen(seen)
			setVersions(s.controlPlane, seen.pods)
			if !slices.Equal(s.controlPlane.Status.Versions, test.want) {
				t.Errorf("got %v, want %v", s.controlPlane.Status.Versions, test.want)
			}
		})
	}
}

func TestLostNodesAreThoseNobodyHearsFrom(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown}, {Type: corev1.NodeReady, Status: ready}},
		}}
	}
	down := func(seen *observation, numbers ...int32) {
		for _, i := range numbers {
			seen.unready(names.KubeAPIServer, i).Status.StartTime = ptr.To(metav1.NewTime(time.Unix(1, 0)))
		}
	}
	for name, test := range map[string]struct {
		nodes         []client.Object
		seen          func(*observation)
		uninitialized bool
		want          []string
		reads         int
	}{
		"all pods are ready, so nobody asks": {seen: func(*observation) {}, nodes: []client.Object{node("n0", corev1.ConditionUnknown)}},
		"a node is not heard from": {seen: func(seen *observation) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionUnknown)},
			want: []string{"n1"}, reads: 1},
		"all nodes are not heard from": {seen: func(seen *observation) { down(seen, 2, 0, 1) },
			nodes: []client.Object{node("n0", corev1.ConditionUnknown), node("n1", corev1.ConditionUnknown), node("n2", corev1.ConditionUnknown)},
			want:  []string{"n0", "n1", "n2"}, reads: 3},
		"a node says that it is not ready": {seen: func(seen *observation) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionFalse)}, reads: 1},
		"a node is well":                   {seen: func(seen *observation) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionTrue)}, reads: 1},
		"a node is gone":                   {seen: func(seen *observation) { down(seen, 1) }, reads: 1},
		"a pod never started":              {seen: func(seen *observation) { seen.unready(names.KubeAPIServer, 1) }, nodes: []client.Object{node("n1", corev1.ConditionUnknown)}},
		"a control plane that never worked is not lost": {seen: func(seen *observation) { down(seen, 1) }, uninitialized: true,
			nodes: []client.Object{node("n1", corev1.ConditionUnknown)}},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := initializedScope(), settled()
			if test.uninitialized {
				s.uninitialized()
			}
			reads := 0
			s.host.Live = interceptor.NewClient(fake.NewClientBuilder().WithObjects(test.nodes...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, object, options...)
				},
			})
			test.seen(seen)
			got, err := lostNodes(t.Context(), s, seen.pods)
			if err != nil || !slices.Equal(got, test.want) || reads != test.reads {
				t.Errorf("got %v after %d reads, %v", got, reads, err)
			}
		})
	}
}

func TestAPodThatEndedIsNotLost(t *testing.T) {
	seen := settled()
	seen.lose("n1")
	for phase, want := range map[corev1.PodPhase]int32{
		corev1.PodPending: 1, corev1.PodRunning: 1, corev1.PodUnknown: 1, corev1.PodFailed: 0, corev1.PodSucceeded: 0,
	} {
		seen.pods[names.KubeAPIServer][1].Status.Phase = phase
		if got := seen.lostPods(names.KubeAPIServer); got != want {
			t.Errorf("%d pods of which one is %s are lost", got, phase)
		}
	}
}

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
		}, "pod p on n0 ended once, last with Error (exit code 2): " + long[:300] + "…"},
		"an image of a sidecar that is not there": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "konnectivity-server",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
		}, "pod p on n0: konnectivity-server waits: ErrImagePull: not found"},
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
			if got := podProblem(pod); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// A message cut within a letter would be no valid UTF-8, and the API server would refuse the status.
func TestMessagesAreCutBetweenLetters(t *testing.T) {
	for length := range 8 {
		message := string(slices.Repeat([]byte("x"), 295+length)) + "日本語日本語"
		if got := lastLine(message); !utf8.ValidString(got) {
			t.Errorf("cut to %q", got[290:])
		}
	}
}

func TestEveryComponentHasItsWorkloadKind(t *testing.T) {
	kinds := workloadKinds(&controlplanev1.KOKControlPlane{})
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, slices.Sorted(slices.Values(registry.Components.Names()))) {
		t.Errorf("got %v", got)
	}
}
