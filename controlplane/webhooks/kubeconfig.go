package webhooks

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// Cluster API finds a kubeconfig by its Secret's name, and its library reads the files that it names: a manager's own
// token would go to the kubeconfig's server. The API server calls this webhook only for Secrets with such a name and a
// new kubeconfig. No other Secret, and no deletion, depends on it. See
// docs/decisions/security.md#a-webhook-judges-kubeconfigs-of-all-clusters.
//
// +kubebuilder:webhook:verbs=create;update,path=/validate--v1-secret,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups="",resources=secrets,versions=v1,name=validation.kubeconfig.kokcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"kubeconfig-of-a-cluster","expression":"request.name.endsWith('-kubeconfig') || object.metadata.?name.orValue('').endsWith('-kubeconfig')"},{"name":"new-kubeconfig","expression":"has(object.data) && 'value' in object.data && (oldObject == null || !has(oldObject.data) || !('value' in oldObject.data) || object.data['value'] != oldObject.data['value'])"}]}`

// KubeconfigSecret validates the kubeconfigs of Clusters, of all providers.
type KubeconfigSecret struct{}

var _ admission.Validator[*corev1.Secret] = &KubeconfigSecret{}

// ValidateCreate refuses a kubeconfig that has its users read files or run programs.
func (*KubeconfigSecret) ValidateCreate(_ context.Context, s *corev1.Secret) (admission.Warnings, error) {
	if err := untrusted.CheckReach(s.Data[secret.KubeconfigDataName]); err != nil {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), s.Name,
			field.ErrorList{field.Invalid(field.NewPath("data").Key(secret.KubeconfigDataName), field.OmitValueType{}, err.Error())})
	}
	return nil, nil
}

// ValidateUpdate refuses such a kubeconfig where it is new.
func (w *KubeconfigSecret) ValidateUpdate(ctx context.Context, before, after *corev1.Secret) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || bytes.Equal(before.Data[secret.KubeconfigDataName], after.Data[secret.KubeconfigDataName]) {
		return nil, nil
	}
	return w.ValidateCreate(ctx, after)
}

// ValidateDelete allows every deletion.
func (*KubeconfigSecret) ValidateDelete(context.Context, *corev1.Secret) (admission.Warnings, error) {
	return nil, nil
}
