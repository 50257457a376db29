package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// A tenant is found by the name of its Cluster, so only the control plane that the Cluster names may
// touch it: a copy under another name must neither fight over the tenant nor take it along when it
// is deleted.

// refuseUnreferenced says on a control plane that its Cluster names another one.
func (r *Reconciler) refuseUnreferenced(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) error {
	problem := fmt.Sprintf("Cluster %s names %s %q as its control plane in spec.controlPlaneRef, not this one; delete this object, which leaves the tenant alone, or correct the reference",
		cluster.Name, cluster.Spec.ControlPlaneRef.Kind, cluster.Spec.ControlPlaneRef.Name)
	ctrl.LoggerFrom(ctx).Info("A person must act", "reason", problem)
	helper, err := patch.NewHelper(controlPlane, r.Client)
	if err != nil {
		return err
	}
	status.Invalid(controlPlane, conditionsv1.NotReferencedReason, problem)
	return helper.Patch(ctx, controlPlane, patch.WithOwnedConditions{Conditions: status.Owned})
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
