package webhooks

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
)

// SetupWithManager registers all webhooks of the control plane provider with the manager's webhook
// server. The manager's scheme must know Cluster API's core types and ours.
func SetupWithManager(mgr ctrl.Manager, limits Limits, table *supported.Versions) error {
	if err := ctrl.NewWebhookManagedBy(mgr, &controlplanev1.KOKControlPlane{}).
		WithDefaulter(&KOKControlPlane{}).WithValidator(&KOKControlPlane{Limits: limits, Versions: table}).Complete(); err != nil {
		return fmt.Errorf("set up the webhooks of KOKControlPlane: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &controlplanev1.KOKControlPlaneTemplate{}).
		WithValidator(&KOKControlPlaneTemplate{Limits: limits, Versions: table}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of KOKControlPlaneTemplate: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &clusterv1.Cluster{}).
		WithValidator(&Cluster{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of Cluster: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &corev1.ConfigMap{}).
		WithValidator(&VersionsConfigMap{Versions: table}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of the table of Kubernetes versions: %w", err)
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &corev1.Secret{}).
		WithValidator(&KubeconfigSecret{}).Complete(); err != nil {
		return fmt.Errorf("set up the webhook of kubeconfigs: %w", err)
	}
	return nil
}
