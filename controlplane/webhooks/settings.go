package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
)

// validateSettings judges what a KOKControlPlane and the spec in a KOKControlPlaneTemplate have in common. In a
// template anything may be unset.
func validateSettings(spec *controlplanev1.KOKControlPlaneSpec, path *field.Path, limits Limits) field.ErrorList {
	errs := limits.validate(spec, path)
	errs = append(errs, validateNodeSelector(spec.Hosting.NodeSelector, path.Child("hosting", "nodeSelector"))...)
	errs = append(errs, validateTolerations(spec.Hosting.Tolerations, path.Child("hosting", "tolerations"))...)
	errs = append(errs, validatePortPool(spec.Hosting, path.Child("hosting"))...)
	errs = append(errs, validateExposure(spec.Hosting.Exposure.Type, spec.Addons.Konnectivity, path)...)
	errs = append(errs, validateImageRepository(spec.ImageRepository, path.Child("imageRepository"))...)
	errs = append(errs, validateImagePullSecret(spec.ImagePullSecret, path.Child("imagePullSecret"))...)
	for _, component := range registry.Components.WithSettings() {
		errs = append(errs, validateComponent(component.Settings, spec, path.Child(component.Settings.Field))...)
	}
	errs = append(errs, validateKubeAPIServer(spec.KubeAPIServer, path.Child("kubeAPIServer"))...)
	errs = append(errs, validateWaysToIssuers(spec, path.Child("kubeAPIServer", "jwt"))...)
	errs = append(errs, validateEtcd(spec.Etcd, path.Child("etcd"))...)
	errs = append(errs, validateRollout(spec.Rollout, path.Child("rollout"))...)
	errs = append(errs, validateKeyRotation(spec.KeyRotation, spec.EncryptionAtRest, path.Child("keyRotation"))...)
	errs = append(errs, validateAddons(spec.Addons, path.Child("addons"))...)
	return append(errs, validateEncryption(spec.EncryptionAtRest, path.Child("encryptionAtRest", "resources"))...)
}
