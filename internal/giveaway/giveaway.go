// Package giveaway judges the Secrets that a spec names and whose content leaves the management cluster: to machines of
// a tenant, or into the tenant. A user who may write such a spec need not be allowed to read Secrets. So a label on the
// Secret, which only its writers can set, says that it may be given away:
// docs/decisions/security.md#a-secret-says-itself-that-tenants-may-have-it.
package giveaway

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Label says, with the value Allowed, that a Secret may be given to tenants and their machines.
const (
	Label   = "kok.cluster.x-k8s.io/for-tenants"
	Allowed = "true"
)

// Refused says why a Secret must not be given away, and how a person allows it; empty when it may be given away.
func Refused(secret *corev1.Secret) string {
	if secret.Labels[Label] == Allowed {
		return ""
	}
	return fmt.Sprintf("Secret %s lacks the label %s, without which no Secret is given to tenants or their machines; if it may be, set it: kubectl -n %s label secret %s %s=%s",
		secret.Name, Label, secret.Namespace, secret.Name, Label, Allowed)
}

// TakeAlong labels a Secret, so that clusterctl move takes it along. It gets no owner: it is a person's, and must not be
// deleted with what names it.
func TakeAlong(ctx context.Context, writer client.Writer, secret *corev1.Secret) error {
	if _, ok := secret.Labels[clusterctlv1.ClusterctlMoveLabel]; ok {
		return nil
	}
	metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	if err := writer.Update(ctx, secret); err != nil {
		return fmt.Errorf("label Secret %s for clusterctl move: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}
