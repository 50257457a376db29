package apply

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
)

func TestRepairsOfAKindAreZeroBeforeTheFirstOne(t *testing.T) {
	before := testutil.CollectAndCount(repairs)
	(&Applier{}).remember(settledKey{kind: "Untouched"}, &corev1.Service{}, "")
	if got := testutil.CollectAndCount(repairs) - before; got != 1 {
		t.Errorf("there are %d more series", got)
	}
	if got := testutil.ToFloat64(repairs.WithLabelValues("Untouched")); got != 0 {
		t.Errorf("it counts %v", got)
	}
}
