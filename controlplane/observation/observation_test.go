package observation

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// unready makes a pod of API servers not ready.
func unready(pods map[string][]corev1.Pod, i int32) *corev1.Pod {
	pod := &pods[names.KubeAPIServer][i]
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	return pod
}

func TestLostNodesAreThoseNobodyHearsFrom(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown}, {Type: corev1.NodeReady, Status: ready}},
		}}
	}
	down := func(seen map[string][]corev1.Pod, numbers ...int32) {
		for _, i := range numbers {
			unready(seen, i).Status.StartTime = ptr.To(metav1.NewTime(time.Unix(1, 0)))
		}
	}
	for name, test := range map[string]struct {
		nodes         []client.Object
		seen          func(map[string][]corev1.Pod)
		uninitialized bool
		want          []string
		reads         int
	}{
		"all pods are ready, so nobody asks": {seen: func(map[string][]corev1.Pod) {}, nodes: []client.Object{node("n0", corev1.ConditionUnknown)}},
		"a node is not heard from": {seen: func(seen map[string][]corev1.Pod) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionUnknown)},
			want: []string{"n1"}, reads: 1},
		"all nodes are not heard from": {seen: func(seen map[string][]corev1.Pod) { down(seen, 2, 0, 1) },
			nodes: []client.Object{node("n0", corev1.ConditionUnknown), node("n1", corev1.ConditionUnknown), node("n2", corev1.ConditionUnknown)},
			want:  []string{"n0", "n1", "n2"}, reads: 3},
		"a node says that it is not ready": {seen: func(seen map[string][]corev1.Pod) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionFalse)}, reads: 1},
		"a node is well":                   {seen: func(seen map[string][]corev1.Pod) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionTrue)}, reads: 1},
		"a node is gone":                   {seen: func(seen map[string][]corev1.Pod) { down(seen, 1) }, reads: 1},
		"a pod never started":              {seen: func(seen map[string][]corev1.Pod) { unready(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionUnknown)}},
		"a control plane that never worked is not lost": {seen: func(seen map[string][]corev1.Pod) { down(seen, 1) }, uninitialized: true,
			nodes: []client.Object{node("n1", corev1.ConditionUnknown)}},
	} {
		t.Run(name, func(t *testing.T) {
			controlPlane, seen := statustest.ControlPlane(), statustest.Pods()
			if test.uninitialized {
				controlPlane.Status.Initialization.ControlPlaneInitialized = nil
			}
			reads := 0
			live := interceptor.NewClient(fake.NewClientBuilder().WithObjects(test.nodes...).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, object, options...)
				},
			})
			test.seen(seen)
			got, err := LostNodes(t.Context(), live, controlPlane, seen)
			if err != nil || !slices.Equal(got, test.want) || reads != test.reads {
				t.Errorf("got %v after %d reads, %v", got, reads, err)
			}
		})
	}
}
