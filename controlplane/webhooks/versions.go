package webhooks

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// The API server calls this webhook only for ConfigMaps of the one name: no other depends on it.
//
// +kubebuilder:webhook:verbs=create;update,path=/validate--v1-configmap,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups="",resources=configmaps,versions=v1,name=validation.versions.kokcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"kok-kubernetes-versions","expression":"object.metadata.?name.orValue('') == 'kok-kubernetes-versions'"}]}`

// VersionsConfigMap validates the ConfigMap with the table of Kubernetes versions.
type VersionsConfigMap struct {
	// Versions know which ConfigMap it is.
	Versions *supported.Versions
}

var _ admission.Validator[*corev1.ConfigMap] = &VersionsConfigMap{}

// ValidateCreate refuses a ConfigMap that would be the table of versions and holds none.
func (w *VersionsConfigMap) ValidateCreate(_ context.Context, c *corev1.ConfigMap) (admission.Warnings, error) {
	if !w.Versions.IsTable(client.ObjectKeyFromObject(c)) {
		return nil, nil
	}
	if _, err := versions.FromConfigMap(c); err != nil {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), c.Name,
			field.ErrorList{field.Invalid(field.NewPath("data"), field.OmitValueType{}, err.Error())})
	}
	return nil, nil
}

// ValidateUpdate refuses a change after which the ConfigMap holds no table.
func (w *VersionsConfigMap) ValidateUpdate(ctx context.Context, _, after *corev1.ConfigMap) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return w.ValidateCreate(ctx, after)
}

// ValidateDelete allows every deletion: the table that is built in is in force again.
func (*VersionsConfigMap) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}
