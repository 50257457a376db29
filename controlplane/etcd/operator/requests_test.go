package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silent has the second member on a host node that the host cluster does not hear from.
func (e *losingEtcd) silent() {
	e.down(1)
	e.nodes[1].Status.Conditions[1].Status = corev1.ConditionUnknown
}

// A host node may be silent for hours, with members of many tenants on it.
func TestWhatIsReadWhileAHostNodeIsSilent(t *testing.T) {
	e := newLosingEtcd()
	e.silent()
	c := e.cluster(t)
	report := c.operator.Run(t.Context(), withKeys(t, c.Task))
	if slices.Contains(e.reads, "list NodeList") {
		t.Errorf("it lists all host nodes: %q", e.reads)
	}
	if len(e.reads) > 10 || len(e.writes) > 0 {
		t.Errorf("it has %d requests: %q, writes %q and says %q", len(e.reads), e.reads, e.writes, report.Recovery)
	}
}

// An hour of runs once a minute had 8 requests a run, one of which listed all host nodes.
func TestLessAndLessIsReadWhileAHostNodeStaysSilent(t *testing.T) {
	e := newComparedEtcd(t, func(e *losingEtcd) { e.silent() })
	says := ""
	for range 60 {
		if says = e.run(t).Recovery; !strings.Contains(says, "does not hear from it") {
			t.Fatalf("it says %q", says)
		}
	}
	if whole := count(e.reads, "list PodList"); len(e.reads) > 200 || whole < 12 || whole > 16 {
		t.Errorf("within an hour it has %d requests, and reads everything %d times", len(e.reads), whole)
	}
	t.Logf("%d requests within an hour", len(e.reads))
}

func count(requests []string, what string) int {
	return len(slices.DeleteFunc(slices.Clone(requests), func(is string) bool { return is != what }))
}

// Nothing that ends the wait is found later than before.
func TestWhatEndsTheWaitForASilentHostNodeIsSeenAtOnce(t *testing.T) {
	const begins = "patch Service blue-etcd-data-1"
	for name, test := range map[string]struct {
		is     func(t *testing.T, e *comparedEtcd)
		writes []string
	}{
		"nothing changes": {is: func(*testing.T, *comparedEtcd) {}},
		"its Node object is deleted": {is: func(t *testing.T, e *comparedEtcd) {
			if err := e.host.Delete(t.Context(), &e.nodes[1]); err != nil {
				t.Fatal(err)
			}
		}, writes: []string{begins}},
		"it is out of service": {is: func(t *testing.T, e *comparedEtcd) {
			e.edit(t, "n1", func(node *corev1.Node) {
				node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			})
		}, writes: []string{begins}},
		"it is back, and the volume is gone": {is: func(t *testing.T, e *comparedEtcd) {
			e.edit(t, "n1", func(node *corev1.Node) { node.Status.Conditions[1].Status = corev1.ConditionTrue })
			if err := e.host.Delete(t.Context(), &e.volumes[1]); err != nil {
				t.Fatal(err)
			}
		}, writes: []string{begins}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newComparedEtcd(t, func(e *losingEtcd) { e.silent() })
			for range 13 {
				e.run(t)
			}
			test.is(t, e)
			if report := e.run(t); !slices.Equal(e.writes, test.writes) {
				t.Errorf("it writes %q, and says %q", e.writes, report.Recovery)
			}
		})
	}
	for name, change := range map[string]func(e *comparedEtcd){
		"a reconcile sees something new": func(e *comparedEtcd) { e.task.Seen = "a pod was deleted" },
		"another member does not answer": func(e *comparedEtcd) { e.health.Members[2].Answered = false },
		"another member leads":           func(e *comparedEtcd) { e.health.Members[0].Leader, e.health.Members[2].Leader = false, true },
	} {
		t.Run(name, func(t *testing.T) {
			e := newComparedEtcd(t, func(e *losingEtcd) { e.silent() })
			for range 13 {
				e.run(t)
			}
			before := count(e.reads, "list PodList")
			change(e)
			if e.run(t); count(e.reads, "list PodList") == before {
				t.Error("it does not read how all is")
			}
		})
	}
}

func (e *comparedEtcd) edit(t *testing.T, name string, edit func(*corev1.Node)) {
	t.Helper()
	node := &corev1.Node{}
	if err := e.host.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	edit(node)
	status := node.Status
	if err := e.host.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status = status
	if err := e.host.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}
