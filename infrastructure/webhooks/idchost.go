package webhooks

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-idchost,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=idchosts,versions=v1alpha1,name=validation.idchost.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// IDCHost validates IDCHosts.
type IDCHost struct{}

var _ admission.Validator[*infrav1.IDCHost] = &IDCHost{}

// ValidateCreate refuses a host that no connection could reach.
func (*IDCHost) ValidateCreate(_ context.Context, host *infrav1.IDCHost) (admission.Warnings, error) {
	return nil, invalid("IDCHost", host.Name, validateHost(host))
}

// ValidateUpdate refuses a change after which the host could not be reached. claim, quarantine and
// uncleanInstanceID can always be written, so that a host that was stored before a new rule can still be given
// back.
func (*IDCHost) ValidateUpdate(_ context.Context, before, after *infrav1.IDCHost) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(asWritten(before), asWritten(after)) {
		return nil, nil
	}
	return nil, invalid("IDCHost", after.Name, validateHost(after))
}

// ValidateDelete allows every deletion: a finalizer keeps a claimed host.
func (*IDCHost) ValidateDelete(context.Context, *infrav1.IDCHost) (admission.Warnings, error) {
	return nil, nil
}

// asWritten has only the fields that a person writes.
func asWritten(host *infrav1.IDCHost) infrav1.IDCHostSpec {
	spec := host.Spec
	spec.Claim, spec.Quarantine, spec.UncleanInstanceID = nil, nil, ""
	return spec
}

func validateHost(host *infrav1.IDCHost) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateServer(&host.Spec.SSHServer, path)
	if host.Spec.Bastion != nil {
		errs = append(errs, validateServer(host.Spec.Bastion, path.Child("bastion"))...)
	}
	return append(errs, validateResources(host.Spec.Capacity, path.Child("capacity"))...)
}

func validateServer(server *infrav1.SSHServer, path *field.Path) field.ErrorList {
	errs := append(validateAddress(server.Address, path.Child("address")), validateUser(server.User, path.Child("user"))...)
	for _, problem := range validation.IsDNS1123Subdomain(server.KeySecretRef.Name) {
		errs = append(errs, field.Invalid(path.Child("keySecretRef", "name"), server.KeySecretRef.Name, problem))
	}
	for i, line := range server.HostKeys {
		if _, err := ssh.ParseHostKey(line); err != nil {
			errs = append(errs, field.Invalid(path.Child("hostKeys").Index(i), line, err.Error()))
		}
	}
	return errs
}
