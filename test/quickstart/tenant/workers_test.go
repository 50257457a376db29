package tenant

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func TestAMachineIsAReadyWorkerWhenItNamesItsNode(t *testing.T) {
	machine := func(name string, ready metav1.ConditionStatus, node string) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		conditions.Set(&m, metav1.Condition{Type: clusterv1.ReadyCondition, Status: ready, Reason: "Seen"})
		m.Status.NodeRef.Name = node
		return m
	}
	for name, test := range map[string]struct {
		machines []clusterv1.Machine
		ready    int
		blocked  string
	}{
		"there is none yet": {nil, 0, "no Machine is made yet"},
		"all are":           {[]clusterv1.Machine{machine("a", metav1.ConditionTrue, "a"), machine("b", metav1.ConditionTrue, "b")}, 2, ""},
		"one is not ready":  {[]clusterv1.Machine{machine("a", metav1.ConditionTrue, "a"), machine("b", metav1.ConditionFalse, "b")}, 1, "Machine b"},
		"one has the conditions of a ready one, and the rest of its status is to come": {
			[]clusterv1.Machine{machine("a", metav1.ConditionTrue, "")}, 0, "Machine a names no Node yet"},
	} {
		t.Run(name, func(t *testing.T) {
			ready, blocked := readyWorkers(test.machines)
			if ready != test.ready || !strings.Contains(blocked, test.blocked) {
				t.Errorf("%d are ready, %q", ready, blocked)
			}
		})
	}
}
