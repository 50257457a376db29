package webhooks

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1alpha1-kokcontrolplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanetemplates,versions=v1alpha1,name=validation.kokcontrolplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KOKControlPlaneTemplate validates KOKControlPlaneTemplates. There is nothing to default: the version
// comes from a Cluster's topology. What a template leaves open, such as the mode of konnectivity, is decided when a
// control plane is made: Clusters that run follow a template that is made anew.
type KOKControlPlaneTemplate struct {
	// Limits are what control planes may ask for.
	Limits Limits
	// Versions are those that control planes may have.
	Versions *supported.Versions
}

var _ admission.Validator[*controlplanev1.KOKControlPlaneTemplate] = &KOKControlPlaneTemplate{}

// ValidateCreate refuses a template from which no working control plane could be made.
func (w *KOKControlPlaneTemplate) ValidateCreate(_ context.Context, t *controlplanev1.KOKControlPlaneTemplate) (admission.Warnings, error) {
	path := field.NewPath("spec", "template")
	spec := specOf(t.Spec.Template.Spec)
	errs := t.Spec.Template.ObjectMeta.Validate(path.Child("metadata"))
	errs = append(errs, validateSettings(&spec, path.Child("spec"), w.Limits)...)
	errs = append(errs, validateTemplateEtcd(spec.Etcd, path.Child("spec", "etcd"))...)
	if len(errs) == 0 {
		errs = w.Limits.validatePatches(spec, w.Versions.Table(), path.Child("spec", "patches"))
	}
	return warnOfEtcd(spec.Etcd, path.Child("spec", "etcd")), invalid("KOKControlPlaneTemplate", t.Name, errs)
}

// specOf is a template's spec as that of a control plane. What only control planes have is unset.
func specOf(spec controlplanev1.KOKControlPlaneTemplateResourceSpec) controlplanev1.KOKControlPlaneSpec {
	return controlplanev1.KOKControlPlaneSpec{
		Hosting: controlplanev1.HostingSpec{
			KubeconfigRef: spec.Hosting.KubeconfigRef,
			NetworkMode:   spec.Hosting.NetworkMode, Exposure: controlplanev1.ExposureSpec{Type: spec.Hosting.Exposure.Type},
			NodeSelector: spec.Hosting.NodeSelector, Tolerations: spec.Hosting.Tolerations, PortPool: spec.Hosting.PortPool,
		},
		ImageRepository:       spec.ImageRepository,
		ImagePullSecret:       spec.ImagePullSecret,
		KubeAPIServer:         spec.KubeAPIServer,
		KubeControllerManager: spec.KubeControllerManager,
		KubeScheduler:         spec.KubeScheduler,
		Etcd:                  spec.Etcd,
		EncryptionAtRest:      spec.EncryptionAtRest,
		Addons:                spec.Addons,
		Patches:               spec.Patches,
		Metrics:               spec.Metrics,
		Rollout:               controlplanev1.RolloutSpec{After: spec.Rollout.After},
		KeyRotation:           spec.KeyRotation,
	}
}

// ValidateUpdate refuses changes, as Cluster API does for its own control plane's template: Clusters
// follow a template's name, and would not be told of a change.
func (*KOKControlPlaneTemplate) ValidateUpdate(_ context.Context, before, after *controlplanev1.KOKControlPlaneTemplate) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec.Template.Spec, after.Spec.Template.Spec) {
		return nil, nil
	}
	return nil, invalid("KOKControlPlaneTemplate", after.Name, field.ErrorList{field.Invalid(
		field.NewPath("spec", "template", "spec"), field.OmitValueType{},
		"is immutable; create a new KOKControlPlaneTemplate and name it in the ClusterClass")})
}

// ValidateDelete allows every deletion.
func (*KOKControlPlaneTemplate) ValidateDelete(context.Context, *controlplanev1.KOKControlPlaneTemplate) (admission.Warnings, error) {
	return nil, nil
}
