package nodekeys

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
)

// mostOfPhases is how many ConfigMaps of phases are removed at once.
const mostOfPhases = 100

// Remove deletes the objects of all phases from the tenant. Nodes keep what they were brought.
func Remove(ctx context.Context, api client.Client) error {
	all := append(Objects(Wanted{}), pullSecret())
	ofPhases := &corev1.ConfigMapList{}
	// Who wrote more of them than there are phases has them removed by the next call.
	err := api.List(ctx, ofPhases, client.InNamespace(metav1.NamespaceSystem), client.Limit(mostOfPhases),
		client.MatchingLabels{names.ManagedByLabel: names.ManagedBy, addon.NameLabel: name})
	if err != nil {
		return fmt.Errorf("list the tenant's ConfigMaps of %s: %w", name, err)
	}
	for i := range ofPhases.Items {
		object := &ofPhases.Items[i]
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		all = append(all, object)
	}
	return tenant.Remove(ctx, api, all)
}
