package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
)

func TestAHostThatIsTooSlowSaysWhatMayHoldIt(t *testing.T) {
	got := reachable(hostSeen{err: fmt.Errorf("run sudo: %w", context.DeadlineExceeded)}, true)
	if got.Status != metav1.ConditionUnknown || got.Reason != infrav1.ProbeFailedReason || !strings.Contains(got.Message, "see to its load, and that it can look up its own name") {
		t.Errorf("%+v", got)
	}
}

// A program on a host writes the reason that a person looks up.
func TestReasonsOfSoftwareAreThoseOfTheProgram(t *testing.T) {
	for said, reason := range softwareReasons {
		if string(said) != reason {
			t.Errorf("%s is told as %s", said, reason)
		}
	}
}

func TestAnotherProblemOfSoftwareIsToldAnew(t *testing.T) {
	texts := map[string]bool{}
	for _, result := range []software.Result{
		{Reason: software.NoRoom}, {Reason: software.NoSource}, {Reason: software.NoRoom, Component: "kubelet"}, {Reason: software.NoRoom, Message: "other"},
	} {
		seen := bootstrapSeen{known: true, progress: bootstrap.Progress{State: bootstrap.Failed, Detail: "cloud-init failed", Software: &result}}
		texts[seen.outcome().Text] = true
	}
	if len(texts) != 4 {
		t.Errorf("%d of 4 problems wake the controller", len(texts))
	}
}
