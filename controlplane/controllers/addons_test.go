package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
)

func TestNothingWaitsForAddons(t *testing.T) {
	s := initializedScope()
	setConditions(s, settled())
	s.uninitialized()
	s.end(stepAddons, flow.Waiting("provided IP is already allocated"))
	updateStatus(s, settled())
	for _, name := range []string{controlplanev1.InitializedCondition, controlplanev1.AvailableCondition} {
		if !conditions.IsTrue(s.controlPlane, name) {
			t.Errorf("%s is %v", name, conditions.Get(s.controlPlane, name))
		}
	}
	for _, name := range []string{controlplanev1.AddonsInstalledCondition, controlplanev1.ReconciledCondition} {
		if c := conditions.Get(s.controlPlane, name); c.Status != metav1.ConditionFalse || c.Message != "provided IP is already allocated" {
			t.Errorf("%s is %v", name, c)
		}
	}
}

func TestTheAddonsAnswerIsWhatTheStepWaitsFor(t *testing.T) {
	notes := newNotebook()
	r := &Reconciler{questions: notes, Clock: clocktesting.NewFakeClock(time.Now())}
	for name, test := range map[string]struct {
		is      func(*scope)
		answer  *probe.Answer
		waiting string
	}{
		"nobody answered yet":                     {waiting: "the addons are being written to the tenant"},
		"a new program asks for the first time":   {is: installed},
		"the spec changed since the last answer":  {is: func(s *scope) { installed(s); s.controlPlane.Generation++ }, waiting: "the addons are being written to the tenant"},
		"the tenant refused":                      {answer: &probe.Answer{Problem: "refused"}, waiting: "refused"},
		"the tenant refused what it took before":  {is: installed, answer: &probe.Answer{Problem: "refused"}, waiting: "refused"},
		"the tenant has them":                     {answer: &probe.Answer{}},
		"the version is one that nobody can make": {is: func(s *scope) { s.unsupported = errRefused }, waiting: errRefused.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := askable(t)
			s.input.Version, s.input.Network.ServiceCIDRs = "v1.36.3", []string{"10.96.0.0/12"}
			s.controlPlane.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.0.1", Port: 6443}
			if test.is != nil {
				test.is(s)
			}
			delete(notes.answers, addonsQuestion)
			if test.answer != nil {
				notes.answers[addonsQuestion] = *test.answer
			}
			result := r.applyAddons(t.Context(), s)
			if result.Err() != nil || result.Waiting() != test.waiting || s.asking {
				t.Errorf("it waits %q, asking %t, %v", result.Waiting(), s.asking, result.Err())
			}
		})
	}
	if asked := notes.asked[addonsQuestion]; asked.Timeout != addonsTimeout || asked.Identity == "" {
		t.Errorf("asked %+v", asked)
	}
}

func installed(s *scope) {
	conditions.Set(s.controlPlane, condition(controlplanev1.AddonsInstalledCondition, metav1.ConditionTrue, controlplanev1.InstalledReason))
}

func TestAddonsThatWereInstalledStaySoWhileTheTenantIsAway(t *testing.T) {
	s := initializedScope()
	s.end(names.KubeAPIServer, flow.Waiting("no API server is ready"))
	expect(t, addonsInstalled(s), expectation{status: metav1.ConditionFalse, reason: controlplanev1.WaitingReason, says: []string{"no API server is ready"}})
	installed(s)
	expect(t, addonsInstalled(s), expectation{status: metav1.ConditionTrue, reason: controlplanev1.InstalledReason})
}
