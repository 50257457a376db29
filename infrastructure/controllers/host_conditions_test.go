package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

func TestAHostThatIsTooSlowSaysWhatMayHoldIt(t *testing.T) {
	got := reachable(hostSeen{err: fmt.Errorf("run sudo: %w", context.DeadlineExceeded)}, true)
	if got.Status != metav1.ConditionUnknown || got.Reason != infrav1.ProbeFailedReason || !strings.Contains(got.Message, "see to its load, and that it can look up its own name") {
		t.Errorf("%+v", got)
	}
}
