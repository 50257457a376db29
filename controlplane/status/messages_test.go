package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

func TestOnlyMessagesDiffer(t *testing.T) {
	starts := metav1.Condition{Type: conditionsv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: "Starts", Message: "it waits"}
	for name, test := range map[string]struct {
		change func(*controlplanev1.KOKControlPlane)
		want   bool
	}{
		"nothing":               {func(*controlplanev1.KOKControlPlane) {}, true},
		"a message":             {func(c *controlplanev1.KOKControlPlane) { c.Status.Conditions[0].Message = "it starts" }, true},
		"the write of one":      {func(c *controlplanev1.KOKControlPlane) { c.ResourceVersion = "8"; c.ManagedFields = nil }, true},
		"a reason":              {func(c *controlplanev1.KOKControlPlane) { c.Status.Conditions[0].Reason = "Available" }, false},
		"a status":              {func(c *controlplanev1.KOKControlPlane) { c.Status.Conditions[0].Status = metav1.ConditionTrue }, false},
		"an observedGeneration": {func(c *controlplanev1.KOKControlPlane) { c.Status.Conditions[0].ObservedGeneration = 2 }, false},
		"a condition":           {func(c *controlplanev1.KOKControlPlane) { c.Status.Conditions = nil }, false},
		"a field of status":     {func(c *controlplanev1.KOKControlPlane) { c.Status.EtcdHealth = "3/3 3/3" }, false},
		"a field of spec":       {func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.36.3" }, false},
		"a label":               {func(c *controlplanev1.KOKControlPlane) { c.Labels = map[string]string{"a": "b"} }, false},
		"a finalizer":           {func(c *controlplanev1.KOKControlPlane) { c.Finalizers = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &controlplanev1.KOKControlPlane{
				ObjectMeta: metav1.ObjectMeta{
					Name: "blue", ResourceVersion: "7", Finalizers: []string{controlplanev1.KOKControlPlaneFinalizer},
					ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}},
				},
				Status: controlplanev1.KOKControlPlaneStatus{Conditions: []metav1.Condition{starts}},
			}
			after := before.DeepCopy()
			test.change(after)
			if got := OnlyMessages(before, after); got != test.want {
				t.Errorf("it says %v", got)
			}
			if wakes := NotOnlyMessages().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); wakes == test.want {
				t.Errorf("the controller is woken: %v", wakes)
			}
			if before.ResourceVersion != "7" || before.Status.Conditions[0].Message != "it waits" {
				t.Error("what was compared is not as it was")
			}
		})
	}
}
