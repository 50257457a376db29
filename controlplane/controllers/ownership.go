package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// A tenant is found by the name of its Cluster, so only the control plane that the Cluster names may
// touch it: a copy under another name must neither fight over the tenant nor take it along when it
// is deleted.

// namesControlPlane reports whether a Cluster names this control plane as its own.
func namesControlPlane(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) bool {
	return cluster.Spec.ControlPlaneRef.Kind == "KOKControlPlane" && cluster.Spec.ControlPlaneRef.Name == controlPlane.Name
}

// refuseUnreferenced says on a control plane that its Cluster names another one.
func (r *Reconciler) refuseUnreferenced(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) error {
	problem := fmt.Sprintf("Cluster %s names %s %q as its control plane in spec.controlPlaneRef, not this one; delete this object, which leaves the tenant alone, or correct the reference",
		cluster.Name, cluster.Spec.ControlPlaneRef.Kind, cluster.Spec.ControlPlaneRef.Name)
	ctrl.LoggerFrom(ctx).Info("A person must act", "reason", problem)
	helper, err := patch.NewHelper(controlPlane, r.Client)
	if err != nil {
		return err
	}
	conditions.Set(controlPlane, condition(controlplanev1.AvailableCondition, metav1.ConditionFalse, controlplanev1.NotReferencedReason, problem))
	return helper.Patch(ctx, controlPlane, patch.WithOwnedConditions{Conditions: ownedConditions})
}

// ensureFinalizer adds the finalizer, and with it the label that still names the tenant when the Cluster
// is gone. It does so before anything of the tenant is made.
func (r *Reconciler) ensureFinalizer(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) (added bool, err error) {
	if !controlPlane.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(controlPlane, controlplanev1.KOKControlPlaneFinalizer) {
		return false, nil
	}
	finalized := controlPlane.DeepCopy()
	controllerutil.AddFinalizer(finalized, controlplanev1.KOKControlPlaneFinalizer)
	metav1.SetMetaDataLabel(&finalized.ObjectMeta, clusterv1.ClusterNameLabel, cluster.Name)
	if err := r.Client.Patch(ctx, finalized, client.MergeFromWithOptions(controlPlane, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("add the finalizer: %w", err)
	}
	return true, nil
}

// tenantToDelete is the tenant that goes with a control plane that is deleted; ok is false when there
// is none, or when it belongs to another control plane.
func (r *Reconciler) tenantToDelete(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) (tenant client.ObjectKey, ok bool, err error) {
	if cluster != nil {
		return client.ObjectKeyFromObject(cluster), namesControlPlane(cluster, controlPlane), nil
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
	if err := r.APIReader.Get(ctx, tenant, present); err == nil {
		return tenant, namesControlPlane(present, controlPlane), nil
	} else if client.IgnoreNotFound(err) != nil {
		return tenant, false, fmt.Errorf("read Cluster %s: %w", tenant, err)
	}
	list := &controlplanev1.KOKControlPlaneList{}
	if err := r.APIReader.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: tenant.Name}); err != nil {
		return tenant, false, fmt.Errorf("list the control planes of Cluster %s: %w", tenant, err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != controlPlane.UID && other.DeletionTimestamp.IsZero() {
			return tenant, false, nil
		}
	}
	return tenant, true, nil
}
