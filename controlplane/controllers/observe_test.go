package controllers

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
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

func TestLostNodesAreThoseNobodyHearsFrom(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown}, {Type: corev1.NodeReady, Status: ready}},
		}}
	}
	down := func(seen *status.Observation, numbers ...int32) {
		for _, i := range numbers {
			unready(seen, names.KubeAPIServer, i).Status.StartTime = ptr.To(metav1.NewTime(time.Unix(1, 0)))
		}
	}
	for name, test := range map[string]struct {
		nodes         []client.Object
		seen          func(*status.Observation)
		uninitialized bool
		want          []string
		reads         int
	}{
		"all pods are ready, so nobody asks": {seen: func(*status.Observation) {}, nodes: []client.Object{node("n0", corev1.ConditionUnknown)}},
		"a node is not heard from": {seen: func(seen *status.Observation) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionUnknown)},
			want: []string{"n1"}, reads: 1},
		"all nodes are not heard from": {seen: func(seen *status.Observation) { down(seen, 2, 0, 1) },
			nodes: []client.Object{node("n0", corev1.ConditionUnknown), node("n1", corev1.ConditionUnknown), node("n2", corev1.ConditionUnknown)},
			want:  []string{"n0", "n1", "n2"}, reads: 3},
		"a node says that it is not ready": {seen: func(seen *status.Observation) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionFalse)}, reads: 1},
		"a node is well":                   {seen: func(seen *status.Observation) { down(seen, 1) }, nodes: []client.Object{node("n1", corev1.ConditionTrue)}, reads: 1},
		"a node is gone":                   {seen: func(seen *status.Observation) { down(seen, 1) }, reads: 1},
		"a pod never started":              {seen: func(seen *status.Observation) { unready(seen, names.KubeAPIServer, 1) }, nodes: []client.Object{node("n1", corev1.ConditionUnknown)}},
		"a control plane that never worked is not lost": {seen: func(seen *status.Observation) { down(seen, 1) }, uninitialized: true,
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
			got, err := lostNodes(t.Context(), s, seen.Pods)
			if err != nil || !slices.Equal(got, test.want) || reads != test.reads {
				t.Errorf("got %v after %d reads, %v", got, reads, err)
			}
		})
	}
}
