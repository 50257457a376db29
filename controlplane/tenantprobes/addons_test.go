package tenantprobes

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// answers has the results that a test wrote, and notes the probe that was asked for last.
type answers struct {
	asked  probe.Probe
	result *probe.Result
}

func (a *answers) Probe(_ probe.Key, asked probe.Probe) (probe.Result, bool) {
	if a.asked = asked; a.result == nil {
		return probe.Result{}, false
	}
	return *a.result, true
}

func (a *answers) Withdraw(probe.Key) {}

func TestTheAddonsAnswerIsWhatTheStepWaitsFor(t *testing.T) {
	for name, test := range map[string]struct {
		is      func(*controlplanev1.KOKControlPlane)
		answer  *probe.Result
		waiting string
	}{
		"nobody answered yet":                    {waiting: "the addons are being written to the tenant"},
		"a new program asks for the first time":  {is: installed},
		"the spec changed since the last answer": {is: func(c *controlplanev1.KOKControlPlane) { installed(c); c.Generation++ }, waiting: "the addons are being written to the tenant"},
		"the tenant refused":                     {answer: &probe.Result{Problem: "refused"}, waiting: "refused"},
		"the tenant refused what it took before": {is: installed, answer: &probe.Result{Problem: "refused"}, waiting: "refused"},
		"the tenant has them":                    {answer: &probe.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			of := &Facts{ControlPlane: statustest.ControlPlane(), Input: &components.Input{Version: "v1.36.3"}, Keys: &pki.KeyMaterial{}}
			of.Input.Network.ServiceCIDRs = []string{"10.96.0.0/12"}
			of.ControlPlane.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.0.1", Port: 6443}
			if test.is != nil {
				test.is(of.ControlPlane)
			}
			tenants := &answers{result: test.answer}
			keeper := &Keeper{Prober: tenants, Tenants: Tenants{Clock: clocktesting.NewFakeClock(time.Now()), Guards: &tenantapi.Guards{}}}
			if problem, err := keeper.Addons(t.Context(), of, versions.Release{}); err != nil || problem != test.waiting {
				t.Errorf("it waits %q, %v", problem, err)
			}
			if tenants.asked.Timeout != addonsTimeout || tenants.asked.Identity == "" {
				t.Errorf("asked %+v", tenants.asked)
			}
		})
	}
}

func installed(c *controlplanev1.KOKControlPlane) {
	conditions.Set(c, status.Condition(conditionsv1.AddonsInstalledCondition, metav1.ConditionTrue, conditionsv1.InstalledReason))
}
