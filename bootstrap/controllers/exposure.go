package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// outOfReach says why a machine can never reach the tenant's API servers; empty when it may. A control plane without exposure
// has no address outside of the host cluster, and machines of a data centre are outside. Where machines of other
// infrastructure are is not known.
func (r *Reconciler) outOfReach(ctx context.Context, s *scope) (string, error) {
	machine, ref := s.machine.Spec.InfrastructureRef, s.cluster.Spec.ControlPlaneRef
	if machine.Kind != "IDCMachine" || machine.APIGroup != infrav1.GroupVersion.Group ||
		ref.Kind != "KOKControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return "", nil
	}
	controlPlane := &controlplanev1.KOKControlPlane{}
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}
	err := r.APIReader.Get(ctx, key, controlPlane)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get KOKControlPlane %s: %w", key, err)
	}
	if controlPlane.Spec.Hosting.Exposure.Type != controlplanev1.ExposureNone {
		return "", nil
	}
	return fmt.Sprintf("the API servers of KOKControlPlane %s are reached inside of the host cluster only, as its hosting.exposure.type is None, and an IDCMachine is outside; "+
		"create a control plane with hosting.exposure.type LoadBalancer or NodePort, or on the host network", key.Name), nil
}
