package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestNothingWaitsForAddons(t *testing.T) {
	in := settledInput()
	setConditions(in, settled())
	in.uninitialized()
	in.end(names.StepAddons, flow.Waiting("provided IP is already allocated"))
	Set(in, settled())
	for _, name := range []string{conditionsv1.InitializedCondition, conditionsv1.AvailableCondition} {
		if !conditions.IsTrue(in.ControlPlane, name) {
			t.Errorf("%s is %v", name, conditions.Get(in.ControlPlane, name))
		}
	}
	for _, name := range []string{conditionsv1.AddonsInstalledCondition, conditionsv1.ReconciledCondition} {
		if c := conditions.Get(in.ControlPlane, name); c.Status != metav1.ConditionFalse || c.Message != "provided IP is already allocated" {
			t.Errorf("%s is %v", name, c)
		}
	}
}

func TestAddonsThatWereInstalledStaySoWhileTheTenantIsAway(t *testing.T) {
	in := settledInput()
	in.end(names.KubeAPIServer, flow.Waiting("no API server is ready"))
	expect(t, addonsInstalled(in), expectation{status: metav1.ConditionFalse, reason: conditionsv1.WaitingReason, says: []string{"no API server is ready"}})
	conditions.Set(in.ControlPlane, Condition(conditionsv1.AddonsInstalledCondition, metav1.ConditionTrue, conditionsv1.InstalledReason))
	expect(t, addonsInstalled(in), expectation{status: metav1.ConditionTrue, reason: conditionsv1.InstalledReason})
}
