package deletion

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/clusters"
)

// tenantToDelete is the tenant of a control plane that is being deleted. ok is false when the control plane never had a
// tenant, or when another control plane owns it.
func (d *Deleter) tenantToDelete(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) (tenant client.ObjectKey, ok bool, err error) {
	if cluster != nil {
		return client.ObjectKeyFromObject(cluster), clusters.NamesControlPlane(cluster, controlPlane), nil
	}
	tenant = client.ObjectKey{Namespace: controlPlane.Namespace, Name: controlPlane.Labels[clusterv1.ClusterNameLabel]}
	for _, owner := range controlPlane.OwnerReferences {
		if owner.Kind == clusterv1.ClusterKind {
			tenant.Name = owner.Name
		}
	}
	if tenant.Name == "" {
		return tenant, false, nil
	}
	// A Cluster of that name may be there and be somebody else's.
	present := &clusterv1.Cluster{}
	if err := d.Reader.Get(ctx, tenant, present); err == nil {
		return tenant, clusters.NamesControlPlane(present, controlPlane), nil
	} else if client.IgnoreNotFound(err) != nil {
		return tenant, false, fmt.Errorf("read Cluster %s: %w", tenant, err)
	}
	list := &controlplanev1.KOKControlPlaneList{}
	if err := d.Reader.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: tenant.Name}); err != nil {
		return tenant, false, fmt.Errorf("list the control planes of Cluster %s: %w", tenant, err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != controlPlane.UID && other.DeletionTimestamp.IsZero() {
			return tenant, false, nil
		}
	}
	return tenant, true, nil
}
