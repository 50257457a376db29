package webhooks

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-idccluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=idcclusters,versions=v1alpha1,name=validation.idccluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-idcclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=idcclustertemplates,versions=v1alpha1,name=validation.idcclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// IDCCluster validates IDCClusters.
type IDCCluster struct{}

var _ admission.Validator[*infrav1.IDCCluster] = &IDCCluster{}

// ValidateCreate refuses an endpoint that no client could reach.
func (*IDCCluster) ValidateCreate(_ context.Context, c *infrav1.IDCCluster) (admission.Warnings, error) {
	return nil, invalid("IDCCluster", c.Name, validateCluster(c))
}

// ValidateUpdate refuses an endpoint that no client could reach. CEL rules keep immutable fields from changing.
func (*IDCCluster) ValidateUpdate(_ context.Context, before, after *infrav1.IDCCluster) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return nil, invalid("IDCCluster", after.Name, validateCluster(after))
}

// ValidateDelete allows every deletion.
func (*IDCCluster) ValidateDelete(context.Context, *infrav1.IDCCluster) (admission.Warnings, error) {
	return nil, nil
}

func validateCluster(c *infrav1.IDCCluster) field.ErrorList {
	if c.Spec.ControlPlaneEndpoint.Host == "" {
		return nil
	}
	return validateAddress(c.Spec.ControlPlaneEndpoint.Host, field.NewPath("spec", "controlPlaneEndpoint", "host"))
}

// IDCClusterTemplate validates IDCClusterTemplates.
type IDCClusterTemplate struct{}

var _ admission.Validator[*infrav1.IDCClusterTemplate] = &IDCClusterTemplate{}

// ValidateCreate refuses metadata that no IDCCluster could have.
func (*IDCClusterTemplate) ValidateCreate(_ context.Context, t *infrav1.IDCClusterTemplate) (admission.Warnings, error) {
	return nil, invalid("IDCClusterTemplate", t.Name, t.Spec.Template.ObjectMeta.Validate(field.NewPath("spec", "template", "metadata")))
}

// ValidateUpdate refuses changes: a change of a template would not reach the Clusters that name it.
func (*IDCClusterTemplate) ValidateUpdate(ctx context.Context, before, after *infrav1.IDCClusterTemplate) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return nil, immutable(ctx, "IDCClusterTemplate", after, field.NewPath("spec", "template"), "ClusterClass")
}

// ValidateDelete allows every deletion.
func (*IDCClusterTemplate) ValidateDelete(context.Context, *infrav1.IDCClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}
