package deletion

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// deleteWithoutHost waits for the host cluster, unless nothing was ever made there.
func (d *Deleter) deleteWithoutHost(ctx context.Context, tenant client.ObjectKey, controlPlane *controlplanev1.KOKControlPlane, problem *hostclusters.Problem) (gone bool, err error) {
	d.EndBackground(client.ObjectKeyFromObject(controlPlane))
	hosted, err := d.wasHosted(ctx, tenant, controlPlane)
	if err != nil {
		return false, fmt.Errorf("find out whether anything was made in the host cluster: %w", err)
	}
	if !hosted {
		return true, nil
	}
	status.Deleting(controlPlane, fmt.Sprintf("%s; the deletion waits for it. If the host cluster is gone for good, "+
		"remove the finalizer %s from metadata.finalizers: nothing is deleted there then", problem.Message, controlplanev1.KOKControlPlaneFinalizer))
	return false, nil
}

// wasHosted reports whether anything may be in the host cluster. Keys are made before all else, and kept in the
// management cluster too.
func (d *Deleter) wasHosted(ctx context.Context, tenant client.ObjectKey, controlPlane *controlplanev1.KOKControlPlane) (bool, error) {
	if Hosted(controlPlane) {
		return true, nil
	}
	left, err := objectsOf(ctx, d.Management, tenant, corev1.SchemeGroupVersion.WithKind("Secret"), nil)
	return len(left) > 0, err
}

// Hosted reports whether a control plane itself tells that something was made in its host cluster.
func Hosted(controlPlane *controlplanev1.KOKControlPlane) bool {
	return controlPlane.Spec.Hosting.Ports.First != 0 || len(controlPlane.Status.Etcd) > 0
}

// deleteManagementObjects deletes what a tenant that is hosted elsewhere has in the management cluster.
func (d *Deleter) deleteManagementObjects(ctx context.Context, tenant client.ObjectKey) ([]string, error) {
	kinds := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision")}
	return deleteKinds(ctx, d.Management, tenant, kinds, nil, everyObject)
}
