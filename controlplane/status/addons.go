package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// InstalledBefore reports whether status says that the addons of the present spec are installed. That counts until the first
// probe has a result, so that a manager that starts does not change the status of settled tenants.
func InstalledBefore(controlPlane *controlplanev1.KOKControlPlane) bool {
	return conditions.IsTrue(controlPlane, conditionsv1.AddonsInstalledCondition) &&
		controlPlane.Status.ObservedGeneration == controlPlane.Generation
}

// addonsInstalled is about objects in the tenant, not about pods: those need workers.
func addonsInstalled(in *Input) metav1.Condition {
	const name = conditionsv1.AddonsInstalledCondition
	switch outcome := in.outcome(names.StepAddons); {
	case !outcome.Ran && InstalledBefore(in.ControlPlane): // The step did not run, for an earlier step waits or failed. The tenant keeps its addons.
	case outcome.Err() != nil:
		return Condition(name, metav1.ConditionUnknown, conditionsv1.ReconcileFailedReason, errortext.Steady(outcome.Err()))
	case !outcome.Done():
		return Condition(name, metav1.ConditionFalse, conditionsv1.WaitingReason, waitingFor(in, names.StepAddons))
	}
	return Condition(name, metav1.ConditionTrue, conditionsv1.InstalledReason)
}
