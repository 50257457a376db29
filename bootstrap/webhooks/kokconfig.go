package webhooks

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-kokconfig,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=kokconfigs,versions=v1alpha1,name=validation.kokconfig.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KOKConfig validates KOKConfigs. Their defaults are in the schema.
type KOKConfig struct{}

var _ admission.Validator[*bootstrapv1.KOKConfig] = &KOKConfig{}

// ValidateCreate refuses a new config from which no machine could be bootstrapped.
func (*KOKConfig) ValidateCreate(_ context.Context, c *bootstrapv1.KOKConfig) (admission.Warnings, error) {
	return nil, invalid("KOKConfig", c.Name, validateSpec(c.Spec, field.NewPath("spec")))
}

// ValidateUpdate refuses a change after which no machine could be bootstrapped. Other changes are allowed. They have an
// effect until the bootstrap data was made. Later, in-place updates of Cluster API may write here what they changed on the
// machine.
func (*KOKConfig) ValidateUpdate(_ context.Context, before, after *bootstrapv1.KOKConfig) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return nil, invalid("KOKConfig", after.Name, validateSpec(after.Spec, field.NewPath("spec")))
}

// ValidateDelete allows every deletion.
func (*KOKConfig) ValidateDelete(context.Context, *bootstrapv1.KOKConfig) (admission.Warnings, error) {
	return nil, nil
}

func invalid(kind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: bootstrapv1.GroupVersion.Group, Kind: kind}, name, errs)
}
