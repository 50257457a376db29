package webhooks

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/clusters"
)

// The API server calls this webhook only for Clusters with a KOKControlPlane, and only when the
// reference or the network is new: Clusters of other providers, and deletions, never depend on it.
//
// +kubebuilder:webhook:verbs=create;update,path=/validate-cluster-x-k8s-io-v1beta2-cluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=cluster.x-k8s.io,resources=clusters,versions=v1beta2,name=validation.cluster.kokcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"kok-control-plane","expression":"has(object.spec.controlPlaneRef) && object.spec.controlPlaneRef.apiGroup == 'controlplane.cluster.x-k8s.io' && object.spec.controlPlaneRef.kind == 'KOKControlPlane'"},{"name":"new-reference-or-network","expression":"oldObject == null || object.spec.?clusterNetwork != oldObject.spec.?clusterNetwork || object.spec.?controlPlaneRef != oldObject.spec.?controlPlaneRef"}]}`

// Cluster validates what a KOKControlPlane needs of its Cluster. The network is the Cluster's field,
// and refusing it there works in whichever order the two objects are created.
type Cluster struct{}

var _ admission.Validator[*clusterv1.Cluster] = &Cluster{}

// ValidateCreate refuses a Cluster that cannot have a control plane of ours.
func (*Cluster) ValidateCreate(_ context.Context, c *clusterv1.Cluster) (admission.Warnings, error) {
	return nil, validateCluster(c)
}

// ValidateUpdate refuses a change after which the Cluster cannot have a control plane of ours, or which
// its present control plane does not survive.
func (*Cluster) ValidateUpdate(_ context.Context, before, after *clusterv1.Cluster) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return nil, validateCluster(after, clusters.ValidateChange(before, after)...)
}

// ValidateDelete allows every deletion.
func (*Cluster) ValidateDelete(context.Context, *clusterv1.Cluster) (admission.Warnings, error) {
	return nil, nil
}

func validateCluster(c *clusterv1.Cluster, more ...*field.Error) error {
	errs := append(clusters.Validate(c), more...)
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("Cluster").GroupKind(), c.Name, errs)
}
