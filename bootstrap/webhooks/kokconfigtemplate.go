package webhooks

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-kokconfigtemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=kokconfigtemplates,versions=v1alpha1,name=validation.kokconfigtemplate.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KOKConfigTemplate validates KOKConfigTemplates.
type KOKConfigTemplate struct{}

var _ admission.Validator[*bootstrapv1.KOKConfigTemplate] = &KOKConfigTemplate{}

// ValidateCreate refuses a template from which no machine could be bootstrapped.
func (*KOKConfigTemplate) ValidateCreate(_ context.Context, t *bootstrapv1.KOKConfigTemplate) (admission.Warnings, error) {
	path := field.NewPath("spec", "template")
	errs := t.Spec.Template.ObjectMeta.Validate(path.Child("metadata"))
	return nil, invalid("KOKConfigTemplate", t.Name, append(errs, validateSpec(t.Spec.Template.Spec, path.Child("spec"))...))
}

// ValidateUpdate refuses changes: they would not reach machines that exist. Cluster API's topology controller may try a
// change in a dry run, to find out whether it must replace the template (contract for
// BootstrapConfig, "support for SSA dry run").
func (*KOKConfigTemplate) ValidateUpdate(ctx context.Context, before, after *bootstrapv1.KOKConfigTemplate) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec.Template.Spec, after.Spec.Template.Spec) {
		return nil, nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("validate KOKConfigTemplate %s: %w", after.Name, err)
	}
	path := field.NewPath("spec", "template", "spec")
	if topology.IsDryRunRequest(request, after) {
		return nil, invalid("KOKConfigTemplate", after.Name, validateSpec(after.Spec.Template.Spec, path))
	}
	return nil, invalid("KOKConfigTemplate", after.Name, field.ErrorList{field.Invalid(path, field.OmitValueType{},
		"is immutable; create a new KOKConfigTemplate and name it in the MachineDeployment or the ClusterClass")})
}

// ValidateDelete allows every deletion.
func (*KOKConfigTemplate) ValidateDelete(context.Context, *bootstrapv1.KOKConfigTemplate) (admission.Warnings, error) {
	return nil, nil
}
