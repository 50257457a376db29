package webhooks

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/topology"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// SetupWithManager registers all webhooks of the infrastructure provider with the manager's webhook
// server. The manager's scheme must know our types.
func SetupWithManager(mgr ctrl.Manager) error {
	if err := ctrl.NewWebhookManagedBy(mgr, &infrav1.IDCHost{}).WithValidator(&IDCHost{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of IDCHost: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &infrav1.IDCMachine{}).WithValidator(&IDCMachine{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of IDCMachine: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &infrav1.IDCMachineTemplate{}).WithValidator(&IDCMachineTemplate{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of IDCMachineTemplate: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &infrav1.IDCCluster{}).WithValidator(&IDCCluster{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of IDCCluster: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &infrav1.IDCClusterTemplate{}).WithValidator(&IDCClusterTemplate{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of IDCClusterTemplate: %w", err)
	}
	return nil
}

func invalid(kind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: infrav1.GroupVersion.Group, Kind: kind}, name, errs)
}

// immutable refuses a change of a template, and says by what it is named. The topology controller's dry runs are let through
// (contract for InfraMachine, "support for SSA dry run").
func immutable(ctx context.Context, kind string, template client.Object, path *field.Path, namedBy string) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if topology.IsDryRunRequest(request, template) {
		return nil
	}
	return invalid(kind, template.GetName(), field.ErrorList{field.Invalid(path, field.OmitValueType{},
		fmt.Sprintf("is immutable; create a new %s and name it in the %s", kind, namedBy))})
}
