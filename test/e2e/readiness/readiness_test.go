package readiness

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: ready},
	}}}
}

func TestOnlyTheTimeCountsInWhichANodeWasNotReady(t *testing.T) {
	const yes, no, silent = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	api, clock := fake.NewClientset(node("a", yes), node("b", yes)), clocktesting.NewFakeClock(time.Now())
	n, err := Watch(t.Context(), api, clock)
	if err != nil {
		t.Fatal(err)
	}
	nodes := api.CoreV1().Nodes()
	is := func(name string, ready corev1.ConditionStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := nodes.UpdateStatus(ctx, node(name, ready), metav1.UpdateOptions{})
			return err
		}
	}
	for _, step := range []struct {
		what   string
		do     func(context.Context) error
		behind int // Nodes that are not ready then.
		want   time.Duration
	}{
		{"all are ready", is("a", yes), 0, 0},
		{"one is not", is("a", no), 1, time.Second},
		{"nor is another one", is("b", silent), 2, 2 * time.Second},
		{"the first is back", is("a", yes), 1, 3 * time.Second},
		{"so is the other one", is("b", yes), 0, 3 * time.Second},
		{"one is not ready again", is("b", no), 1, 4 * time.Second},
		{"and is deleted", func(ctx context.Context) error { return nodes.Delete(ctx, "b", metav1.DeleteOptions{}) }, 0, 4 * time.Second},
	} {
		if err := step.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		heard := func(context.Context) (bool, error) {
			n.lock.Lock()
			defer n.lock.Unlock()
			return len(n.notReady) == step.behind, nil
		}
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, heard); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		clock.Step(time.Second)
		if got := n.NotReady(); got != step.want {
			t.Errorf("%s: it was %s, want %s", step.what, got, step.want)
		}
	}
}

func TestTheWaitForAClusterThatDoesNotAnswerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Watch(ctx, fake.NewClientset(), clocktesting.NewFakeClock(time.Now())); err == nil {
		t.Error("it goes on without a list")
	}
}
