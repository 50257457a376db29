package controllers

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
)

const (
	// addonsQuestion is the kind of the question that brings the addons.
	addonsQuestion = "addons"
	// addonsTimeout is that of kube-apiserver for its own work. A creation of a Service that is cut
	// before leaves the Service's address taken until kube-apiserver's next repair, minutes later.
	addonsTimeout = time.Minute
)

// applyAddons is done when the tenant held its addons, and none that is switched off, when it was last
// asked. It comes last and nothing waits for it: machines join without, and the API is of use.
func (r *Reconciler) applyAddons(_ context.Context, s *scope) (string, error) {
	if s.unsupported != nil {
		return s.unsupported.Error(), nil //nolint:nilerr // It is what the step waits for.
	}
	dns, err := services.DNS(s.input.Network.ServiceCIDRs)
	if err != nil {
		return "", err
	}
	wanted, unwanted, err := addons.Objects(&addon.Input{
		Version:         s.input.Version,
		CoreDNSTag:      s.release.CoreDNS,
		KonnectivityTag: s.release.Konnectivity,
		ImageRepository: s.input.Spec.ImageRepository,
		Spec:            s.controlPlane.Spec.Addons,
		PodCIDRs:        s.input.Network.PodCIDRs,
		DNSDomain:       s.input.Network.DNSDomain,
		DNSAddress:      dns,
		Server:          tenant.LocalServer,
		Patches:         s.controlPlane.Spec.Patches,
	})
	if err != nil {
		return "", err
	}
	visit := &tenantVisit{r: r, keys: s.keys, address: endpointAddress(s.controlPlane), what: "the addons", wanted: wanted, unwanted: unwanted}
	question, err := visit.question()
	if err != nil {
		return "", err
	}
	question.Timeout = addonsTimeout
	answer, ok := r.questions.Ask(probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: addonsQuestion}, question)
	if !ok && !installedBefore(s.controlPlane) {
		return "the addons are being written to the tenant", nil
	}
	return answer.Problem, nil
}

// installedBefore reports whether what status says of the addons is about this spec: it holds until
// the first answer, so that a program that starts writes nothing to settled tenants.
func installedBefore(controlPlane *controlplanev1.KOKControlPlane) bool {
	return conditions.IsTrue(controlPlane, controlplanev1.AddonsInstalledCondition) &&
		controlPlane.Status.ObservedGeneration == controlPlane.Generation
}

// addonsInstalled is about objects in the tenant, not about pods: those need workers.
func addonsInstalled(s *scope) metav1.Condition {
	const name = controlplanev1.AddonsInstalledCondition
	switch outcome := s.outcome(stepAddons); {
	case !outcome.Ran && installedBefore(s.controlPlane): // The tenant's API is away; what it holds, it holds.
	case outcome.Err != nil:
		return condition(name, metav1.ConditionUnknown, controlplanev1.ReconcileFailedReason, errortext.Steady(outcome.Err))
	case !outcome.Done():
		return condition(name, metav1.ConditionFalse, controlplanev1.WaitingReason, waitingFor(s, stepAddons))
	}
	return condition(name, metav1.ConditionTrue, controlplanev1.InstalledReason)
}
