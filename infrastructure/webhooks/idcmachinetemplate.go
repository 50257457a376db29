package webhooks

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-idcmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=idcmachinetemplates,versions=v1alpha1,name=validation.idcmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// IDCMachineTemplate validates IDCMachineTemplates.
type IDCMachineTemplate struct{}

var _ admission.Validator[*infrav1.IDCMachineTemplate] = &IDCMachineTemplate{}

// ValidateCreate refuses a template from which no working machine could be made.
func (*IDCMachineTemplate) ValidateCreate(_ context.Context, t *infrav1.IDCMachineTemplate) (admission.Warnings, error) {
	path := field.NewPath("spec", "template")
	errs := t.Spec.Template.ObjectMeta.Validate(path.Child("metadata"))
	if t.Spec.Template.Spec != nil {
		errs = append(errs, validateRequirements(*t.Spec.Template.Spec, path.Child("spec"))...)
	}
	return nil, invalid("IDCMachineTemplate", t.Name, errs)
}

// ValidateUpdate refuses changes: a change of a template would not reach machines that exist.
func (*IDCMachineTemplate) ValidateUpdate(ctx context.Context, before, after *infrav1.IDCMachineTemplate) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec.Template.Spec, after.Spec.Template.Spec) {
		return nil, nil
	}
	return nil, immutable(ctx, "IDCMachineTemplate", after, field.NewPath("spec", "template", "spec"), "MachineDeployment or ClusterClass")
}

// ValidateDelete allows every deletion.
func (*IDCMachineTemplate) ValidateDelete(context.Context, *infrav1.IDCMachineTemplate) (admission.Warnings, error) {
	return nil, nil
}
