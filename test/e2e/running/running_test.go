package running

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	etcd      = names.EtcdData
	apiServer = names.KubeAPIServer
	scheduler = names.KubeScheduler
)

func TestWhatRunsIsToldByUIDAndRestarts(t *testing.T) {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "blue-kube-scheduler-a", UID: "1", Labels: map[string]string{names.ComponentLabel: scheduler}},
		Spec:       corev1.PodSpec{NodeName: "idc-1"},
		Status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{{RestartCount: 1}},
			ContainerStatuses:     []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 4}},
		},
	}
	want := map[string]Pod{"blue-kube-scheduler-a": {UID: "1", Restarts: 7, Node: "idc-1", Component: scheduler}}
	if got := Of([]corev1.Pod{pod}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestComponentsThatRolled(t *testing.T) {
	// The last letter of a name is the pod's UID.
	before := pods(etcd, "data-0-a", "data-1-b", "data-2-c")
	maps.Copy(before, pods(scheduler, "scheduler-d", "scheduler-e"))
	maps.Copy(before, pods(apiServer, "apiserver-f", "apiserver-g", "apiserver-h"))
	with := func(component string, run ...string) map[string]Pod {
		after := maps.Clone(before)
		maps.DeleteFunc(after, func(_ string, pod Pod) bool { return pod.Component == component })
		maps.Copy(after, pods(component, run...))
		return after
	}
	restarted := maps.Clone(before)
	restarted["data-1-b"] = Pod{UID: "b", Restarts: 2, Component: etcd}

	for name, test := range map[string]struct {
		after   map[string]Pod
		mayRoll []string
		want    []string
	}{
		"nothing happened":                           {after: before},
		"a pod more, beside those that were there":   {after: with(scheduler, "scheduler-d", "scheduler-e", "scheduler-x")},
		"a pod fewer":                                {after: with(scheduler, "scheduler-e")},
		"members more, beside those that were there": {after: with(etcd, "data-0-a", "data-1-b", "data-2-c", "data-3-x", "data-4-y")},
		"members fewer":                              {after: with(etcd, "data-0-a")},
		"every scheduler was replaced": {
			after: with(scheduler, "scheduler-x", "scheduler-y"),
			want:  []string{"kube-scheduler: of 2 pods that ran before 0 run on, not 2: scheduler-d is gone, scheduler-e is gone"},
		},
		"a scheduler was replaced while another one came": {
			after: with(scheduler, "scheduler-d", "scheduler-x", "scheduler-y"),
			want:  []string{"kube-scheduler: of 2 pods that ran before 1 run on, not 2: scheduler-e is gone"},
		},
		"the scheduler that was left is another one": {
			after: with(scheduler, "scheduler-x"),
			want:  []string{"kube-scheduler: of 2 pods that ran before 0 run on, not 1: scheduler-d is gone, scheduler-e is gone"},
		},
		"a member was replaced under its name": {
			after: with(etcd, "data-0-a", "data-1-b", "data-2-x"),
			want:  []string{"etcd-data: of 3 pods that ran before 2 run on, not 3: data-2-c is gone"},
		},
		"a member was restarted": {
			after: restarted,
			want:  []string{"etcd-data: of 3 pods that ran before 2 run on, not 3: data-1-b was restarted 2 times"},
		},
		"every API server was replaced": {
			after: with(apiServer, "apiserver-x", "apiserver-y", "apiserver-z"),
			want:  []string{"kube-apiserver: of 3 pods that ran before 0 run on, not 3: apiserver-f is gone, apiserver-g is gone, apiserver-h is gone"},
		},
		"every API server was replaced, which may be": {
			after:   with(apiServer, "apiserver-x", "apiserver-y", "apiserver-z"),
			mayRoll: []string{apiServer},
		},
		"a scheduler was replaced where API servers may be": {
			after:   with(scheduler, "scheduler-d", "scheduler-x"),
			mayRoll: []string{apiServer},
			want:    []string{"kube-scheduler: of 2 pods that ran before 1 run on, not 2: scheduler-e is gone"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Rolled(before, test.after, test.mayRoll...); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// pods of a component, whose UIDs are the last letters of their names.
func pods(component string, run ...string) map[string]Pod {
	all := map[string]Pod{}
	for _, name := range run {
		all[name] = Pod{UID: types.UID(name[len(name)-1:]), Component: component}
	}
	return all
}

func TestWhatADrainDoesNotExplain(t *testing.T) {
	before := map[string]Pod{
		"data-0":      {UID: "a", Node: "idc-1", Component: etcd},
		"scheduler-1": {UID: "b", Node: "idc-1", Component: scheduler},
		"scheduler-2": {UID: "c", Node: "idc-2", Component: scheduler},
		"apiserver-1": {UID: "d", Node: "idc-1", Component: apiServer, Restarts: 1},
	}
	with := func(change map[string]Pod, gone ...string) map[string]Pod {
		after := maps.Clone(before)
		for _, name := range gone {
			delete(after, name)
		}
		maps.Copy(after, change)
		return after
	}
	for name, test := range map[string]struct {
		node  string
		after map[string]Pod
		want  []string
	}{
		"nothing happened": {node: "idc-1", after: before},
		"a member came back, and a scheduler went to another node": {
			node:  "idc-1",
			after: with(map[string]Pod{"data-0": {UID: "x", Node: "idc-1", Component: etcd}, "scheduler-3": {UID: "y", Node: "idc-3", Component: scheduler}}, "scheduler-1"),
		},
		"a pod of another node went": {node: "idc-1", after: with(nil, "scheduler-2"), want: []string{"scheduler-2 on idc-2 is gone"}},
		"a pod that stays went":      {node: "idc-1", after: with(nil, "apiserver-1"), want: []string{"apiserver-1 on idc-1 is gone"}},
		"a pod that stays was restarted": {
			node:  "idc-1",
			after: with(map[string]Pod{"apiserver-1": {UID: "d", Node: "idc-1", Component: apiServer, Restarts: 3}}),
			want:  []string{"apiserver-1 on idc-1 was restarted 2 times"},
		},
		"a new pod was restarted": {
			node:  "idc-1",
			after: with(map[string]Pod{"data-0": {UID: "x", Node: "idc-1", Component: etcd, Restarts: 1}}),
			want:  []string{"data-0 on idc-1 is new and was restarted 1 times"},
		},
		"a pod went and no node was drained": {after: with(nil, "data-0"), want: []string{"data-0 on idc-1 is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Undrained(before, test.after, test.node, apiServer); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
