package webhooks

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-idcmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=idcmachines,versions=v1alpha1,name=validation.idcmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// IDCMachine validates IDCMachines.
type IDCMachine struct{}

var _ admission.Validator[*infrav1.IDCMachine] = &IDCMachine{}

// ValidateCreate refuses a machine that could not get a host.
func (*IDCMachine) ValidateCreate(_ context.Context, machine *infrav1.IDCMachine) (admission.Warnings, error) {
	return nil, invalid("IDCMachine", machine.Name, validateMachine(machine))
}

// ValidateUpdate refuses a hostRef that is no name, and a provider ID that is not the host's. It does not check other
// fields: CEL keeps people from changing them, and a machine that was stored before a new rule must still get its host.
func (*IDCMachine) ValidateUpdate(_ context.Context, before, after *infrav1.IDCMachine) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return nil, invalid("IDCMachine", after.Name, append(validateHostRef(after), validateProviderID(after)...))
}

// ValidateDelete allows every deletion.
func (*IDCMachine) ValidateDelete(context.Context, *infrav1.IDCMachine) (admission.Warnings, error) {
	return nil, nil
}

func validateMachine(machine *infrav1.IDCMachine) field.ErrorList {
	errs := validateRequirements(machine.Spec.HostRequirements, field.NewPath("spec"))
	if len(validation.IsDNS1123Label(machine.Name)) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), machine.Name,
			fmt.Sprintf("becomes the name of the host and of the Node: it must have at most %d characters, lower case letters, digits and '-'", validation.DNS1123LabelMaxLength)))
	}
	return append(append(errs, validateHostRef(machine)...), validateProviderID(machine)...)
}

// validateHostRef refuses a hostRef that is no valid name: the machine would wait for it for ever.
func validateHostRef(machine *infrav1.IDCMachine) field.ErrorList {
	if machine.Spec.HostRef == nil {
		return nil
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(machine.Spec.HostRef.Name) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "hostRef", "name"), machine.Spec.HostRef.Name, problem))
	}
	return errs
}

func validateProviderID(machine *infrav1.IDCMachine) field.ErrorList {
	if ref := machine.Spec.HostRef; ref != nil && machine.Spec.ProviderID != "" {
		host := "idc://" + machine.Namespace + "/" + ref.Name
		// An older release made provider IDs without the instance ID. clusterctl may move such a machine here.
		if want := host + "/" + machine.Spec.InstanceID; machine.Spec.ProviderID != want && machine.Spec.ProviderID != host {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "providerID"), machine.Spec.ProviderID,
				fmt.Sprintf("must be %s, which names the host in hostRef and the instanceID; the controller writes them all", want))}
		}
	}
	return nil
}
