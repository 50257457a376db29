package cordon

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func node(cordoned bool) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "host", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"pool": "a"},
			Annotations: map[string]string{"much": "text"},
		},
		Spec: corev1.NodeSpec{Unschedulable: cordoned, PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Images: []corev1.ContainerImage{{Names: []string{"image"}}}, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
		},
	}
}

func TestOfANodeLittleIsKept(t *testing.T) {
	whole := node(true)
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	kept, err := Trim(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "host", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"pool": "a"}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
	}
	if got := kept.(*corev1.Node); got.String() != want.String() {
		t.Errorf("got %v", got)
	}
	if other, err := Trim(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "host"}}); err != nil || other.(*corev1.Pod).Spec.NodeName != "host" {
		t.Errorf("of a pod is kept %v, %v", other, err)
	}
}

func TestOnlyACordonAndItsEndWake(t *testing.T) {
	busy := node(false)
	busy.Status.Conditions, busy.ResourceVersion = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}, "8"
	for name, test := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"it is cordoned":         {node(false), node(true), true},
		"it takes pods again":    {node(true), node(false), true},
		"it says that it lives":  {node(false), busy, false},
		"nothing happens at all": {node(true), node(true), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Predicate().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("it wakes: %t", got)
			}
		})
	}
	if Predicate().Create(event.CreateEvent{Object: node(true)}) || Predicate().Delete(event.DeleteEvent{Object: node(true)}) {
		t.Error("a Node that comes or goes wakes")
	}
}

func TestWhichMembersAreOnANode(t *testing.T) {
	pod := func(name, component, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{names.ComponentLabel: component}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	cache := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, PodsByNode, NodeOf).WithObjects(
		pod("data", names.EtcdData, "host"), pod("events", names.EtcdEvents, "host"), pod("api", names.KubeAPIServer, "host"),
		pod("elsewhere", names.EtcdData, "other"), pod("nowhere", names.EtcdData, ""),
	).Build()
	pods, err := Members(t.Context(), cache, "host")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range pods {
		got = append(got, pod.Name)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"data", "events"}) {
		t.Errorf("got %v", got)
	}
}

func TestWhetherANodeIsCordoned(t *testing.T) {
	silent := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("connection refused")
	}}
	for name, test := range map[string]struct {
		reader client.Reader
		want   bool
		fails  bool
	}{
		"it is":        {fake.NewClientBuilder().WithObjects(node(true)).Build(), true, false},
		"it is not":    {fake.NewClientBuilder().WithObjects(node(false)).Build(), false, false},
		"it is gone":   {fake.NewClientBuilder().Build(), false, false},
		"nobody tells": {fake.NewClientBuilder().WithInterceptorFuncs(silent).Build(), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Is(t.Context(), test.reader, "host"); got != test.want || (err != nil) != test.fails {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}
