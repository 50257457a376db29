package operator

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// silent has a member on a host node that the host cluster does not hear from.
func (e *losingEtcd) silent(i int) {
	e.down(i)
	e.nodes[i].Status.Conditions[1].Status = corev1.ConditionUnknown
}

// A host node may be silent for hours, with members of many tenants on it.
func TestWhatIsReadWhileAHostNodeIsSilent(t *testing.T) {
	e := newLosingEtcd()
	e.silent(1)
	c := e.cluster(t)
	report := c.operator.Run(t.Context(), withKeys(t, c.Task))
	if slices.Contains(e.reads, "list NodeList") {
		t.Errorf("it lists all host nodes: %q", e.reads)
	}
	if len(e.reads) > 10 || len(e.writes) > 0 {
		t.Errorf("it has %d requests: %q, writes %q and says %q", len(e.reads), e.reads, e.writes, report.Recovery)
	}
	t.Logf("%d requests: %q", len(e.reads), e.reads)
}
