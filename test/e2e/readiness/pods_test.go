package readiness

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

func of(component, name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{"component": component, "tenant": "t"}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func TestPodsThatAComponentLacksAreCounted(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	other := of("server", "of-somebody-else", no)
	other.Labels["tenant"] = "u"
	api := fake.NewClientset(of("server", "a", yes), of("server", "b", yes), of("server", "c", yes), of("scheduler", "d", yes), other)
	p, err := WatchPods(t.Context(), api, "n", "tenant=t", "component")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Lacked()) > 0 {
		t.Errorf("at first pods are missing: %v", p.Lacked())
	}
	pods := api.CoreV1().Pods("n")
	goes := func(name string) *corev1.Pod {
		ending := of("server", name, yes)
		now := metav1.Now()
		ending.DeletionTimestamp, ending.Finalizers = &now, []string{"a/b"}
		return ending
	}
	update := func(pod *corev1.Pod) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := pods.Update(ctx, pod, metav1.UpdateOptions{})
			return err
		}
	}
	for _, step := range []struct {
		what              string
		do                func(context.Context) error
		ready             int // API servers then.
		server, scheduler int
	}{
		{"one is being deleted", update(goes("a")), 2, 1, 0},
		{"and gone", func(ctx context.Context) error { return pods.Delete(ctx, "a", metav1.DeleteOptions{}) }, 2, 1, 0},
		{"another one comes", func(ctx context.Context) error {
			_, err := pods.Create(ctx, of("server", "e", no), metav1.CreateOptions{})
			return err
		}, 2, 1, 0},
		{"and is ready", update(of("server", "e", yes)), 3, 1, 0},
		{"the next is not ready", update(of("server", "b", no)), 2, 1, 0},
		{"nor is a third one", update(of("server", "c", no)), 1, 2, 0},
		{"both are back", func(ctx context.Context) error {
			if err := update(of("server", "b", yes))(ctx); err != nil {
				return err
			}
			return update(of("server", "c", yes))(ctx)
		}, 3, 2, 0},
	} {
		if err := step.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		heard := func(context.Context) (bool, error) {
			p.lock.Lock()
			defer p.lock.Unlock()
			return p.count()["server"] == step.ready, nil
		}
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, heard); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if lacked := p.Lacked(); lacked["server"].Count != step.server || lacked["scheduler"].Count != step.scheduler {
			t.Errorf("%s: %v, want %d and %d", step.what, lacked, step.server, step.scheduler)
		}
	}
	if want := "b ready: false, c ready: false, e ready: true"; p.Lacked()["server"].Others != want {
		t.Errorf("the others were %q, want %q", p.Lacked()["server"].Others, want)
	}
}
