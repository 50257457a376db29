package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

func TestTheAddonsAnswerIsWhatTheStepWaitsFor(t *testing.T) {
	notes := newNotebook()
	r := &Reconciler{prober: notes, Clock: clocktesting.NewFakeClock(time.Now())}
	for name, test := range map[string]struct {
		is      func(*scope)
		answer  *probe.Result
		waiting string
	}{
		"nobody answered yet":                     {waiting: "the addons are being written to the tenant"},
		"a new program asks for the first time":   {is: installed},
		"the spec changed since the last answer":  {is: func(s *scope) { installed(s); s.controlPlane.Generation++ }, waiting: "the addons are being written to the tenant"},
		"the tenant refused":                      {answer: &probe.Result{Problem: "refused"}, waiting: "refused"},
		"the tenant refused what it took before":  {is: installed, answer: &probe.Result{Problem: "refused"}, waiting: "refused"},
		"the tenant has them":                     {answer: &probe.Result{}},
		"the version is one that nobody can make": {is: func(s *scope) { s.unsupported = errRefused }, waiting: errRefused.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := askable(t)
			s.input.Version, s.input.Network.ServiceCIDRs = "v1.36.3", []string{"10.96.0.0/12"}
			s.controlPlane.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.0.1", Port: 6443}
			if test.is != nil {
				test.is(s)
			}
			delete(notes.answers, addonsProbeKind)
			if test.answer != nil {
				notes.answers[addonsProbeKind] = *test.answer
			}
			result := r.applyAddons(t.Context(), s)
			if result.Err() != nil || result.Waiting() != test.waiting || s.probing {
				t.Errorf("it waits %q, asking %t, %v", result.Waiting(), s.probing, result.Err())
			}
		})
	}
	if asked := notes.asked[addonsProbeKind]; asked.Timeout != addonsTimeout || asked.Identity == "" {
		t.Errorf("asked %+v", asked)
	}
}

func installed(s *scope) {
	conditions.Set(s.controlPlane, status.Condition(controlplanev1.AddonsInstalledCondition, metav1.ConditionTrue, controlplanev1.InstalledReason))
}
