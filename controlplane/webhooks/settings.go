package webhooks

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// settings are what a KOKControlPlane and the spec in a KOKControlPlaneTemplate have in common. In a
// template anything may be unset.
type settings struct {
	nodeSelector          map[string]string
	tolerations           []corev1.Toleration
	exposure              controlplanev1.ExposureType
	imageRepository       string
	imagePullSecret       string
	kubeAPIServer         controlplanev1.KubeAPIServerSpec
	kubeControllerManager controlplanev1.ReplicatedComponentSpec
	kubeScheduler         controlplanev1.ReplicatedComponentSpec
	etcd                  controlplanev1.EtcdSpec
	encryptionAtRest      controlplanev1.EncryptionAtRestSpec
	addons                controlplanev1.AddonsSpec
}

func (s settings) validate(path *field.Path, limits Limits) field.ErrorList {
	errs := limits.validate(s, path)
	errs = append(errs, validateNodeSelector(s.nodeSelector, path.Child("hosting", "nodeSelector"))...)
	errs = append(errs, validateTolerations(s.tolerations, path.Child("hosting", "tolerations"))...)
	errs = append(errs, validateExposure(s.exposure, s.addons.Konnectivity, path)...)
	errs = append(errs, validateImageRepository(s.imageRepository, path.Child("imageRepository"))...)
	errs = append(errs, validateImagePullSecret(s.imagePullSecret, path.Child("imagePullSecret"))...)
	errs = append(errs, validateKubeAPIServer(s.kubeAPIServer, path.Child("kubeAPIServer"))...)
	errs = append(errs, validateComponent(names.KubeControllerManager, s.kubeControllerManager.ComponentSpec, path.Child("kubeControllerManager"))...)
	errs = append(errs, validateComponent(names.KubeScheduler, s.kubeScheduler.ComponentSpec, path.Child("kubeScheduler"))...)
	errs = append(errs, validateEtcd(s.etcd, path.Child("etcd"))...)
	errs = append(errs, validateAddons(s.addons, path.Child("addons"))...)
	return append(errs, validateEncryption(s.encryptionAtRest, path.Child("encryptionAtRest", "resources"))...)
}
