package webhooks

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// SetupWithManager registers all webhooks of the bootstrap provider with the manager's webhook server.
func SetupWithManager(mgr ctrl.Manager) error {
	if err := ctrl.NewWebhookManagedBy(mgr, &bootstrapv1.KOKConfig{}).WithValidator(&KOKConfig{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of KOKConfig: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &bootstrapv1.KOKConfigTemplate{}).WithValidator(&KOKConfigTemplate{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of KOKConfigTemplate: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &bootstrapv1.KOKSoftware{}).WithValidator(&KOKSoftware{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of KOKSoftware: %w", err)
	}
	return nil
}
