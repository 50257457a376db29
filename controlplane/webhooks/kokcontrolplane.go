package webhooks

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1alpha1-kokcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes,versions=v1alpha1,name=default.kokcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1alpha1-kokcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes,versions=v1alpha1,name=validation.kokcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KOKControlPlane defaults and validates KOKControlPlanes.
type KOKControlPlane struct {
	// Limits are what control planes may ask for.
	Limits Limits
	// Versions are those that control planes may have.
	Versions *supported.Versions
}

var (
	_ admission.Defaulter[*controlplanev1.KOKControlPlane] = &KOKControlPlane{}
	_ admission.Validator[*controlplanev1.KOKControlPlane] = &KOKControlPlane{}
)

// Default adds the "v" that people leave out of the version, the number of API servers of a Deployment, which a
// DaemonSet has not, and the mode of konnectivity; all other defaults are in the schema.
func (*KOKControlPlane) Default(ctx context.Context, c *controlplanev1.KOKControlPlane) error {
	c.Spec.Version = versions.Normalize(c.Spec.Version)
	lacksReplicas := c.Spec.KubeAPIServer.IsDeployment() && c.Spec.Replicas == nil
	if !lacksReplicas && c.Spec.Addons.Konnectivity.Mode != "" {
		return nil
	}
	before, err := specBefore(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if lacksReplicas {
		c.Spec.Replicas = ptr.To(controlplanev1.DefaultAPIServerReplicas)
		// A spec that no longer has a number leaves it to others, such as an autoscaler. They begin with the
		// present number.
		if before != nil && before.Replicas != nil {
			c.Spec.Replicas = before.Replicas
		}
	}
	konnectivity := &c.Spec.Addons.Konnectivity
	switch {
	case konnectivity.Mode != "":
	case before != nil:
		// Another mode would restart API servers that run.
		konnectivity.Mode = before.Addons.Konnectivity.Mode
	default:
		konnectivity.Mode = controlplanev1.DefaultKonnectivityMode(c.Spec.Hosting.Exposure.Type)
	}
	return nil
}

// specBefore is the spec of the object that a request changes; nil when the request makes one.
func specBefore(ctx context.Context) (*controlplanev1.KOKControlPlaneSpec, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, err
	}
	if request.Operation != admissionv1.Update {
		return nil, nil
	}
	before := &controlplanev1.KOKControlPlane{}
	if err := json.Unmarshal(request.OldObject.Raw, before); err != nil {
		return nil, fmt.Errorf("read the KOKControlPlane that is changed: %w", err)
	}
	return &before.Spec, nil
}

// ValidateCreate refuses a new control plane that cannot work.
func (w *KOKControlPlane) ValidateCreate(_ context.Context, c *controlplanev1.KOKControlPlane) (admission.Warnings, error) {
	table := w.Versions.Table()
	errs := append(validateControlPlane(c, w.Limits, table), w.Limits.validatePorts(c.Spec.Hosting.Ports, portsPath)...)
	if err := table.Validate(c.Spec.Version); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "version"), c.Spec.Version, err.Error()))
	}
	return warnOfEtcd(c.Spec.Etcd, etcdPath), invalid("KOKControlPlane", c.Name, errs)
}

// ValidateUpdate refuses a change that cannot work. Ports never change: those of a running control plane
// stay when the range that others get theirs from is another.
func (w *KOKControlPlane) ValidateUpdate(_ context.Context, before, after *controlplanev1.KOKControlPlane) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	table := w.Versions.Table()
	errs := append(validateControlPlane(after, w.Limits, table), validateChange(before, after, table)...)
	if before.Spec.Hosting.Ports != after.Spec.Hosting.Ports {
		errs = append(errs, w.Limits.validatePorts(after.Spec.Hosting.Ports, portsPath)...)
	}
	warnings := append(warnOfEtcd(after.Spec.Etcd, etcdPath), warnOfRollout(before.Spec.Rollout, after.Spec.Rollout, rolloutPath)...)
	return warnings, invalid("KOKControlPlane", after.Name, errs)
}

// ValidateDelete allows every deletion.
func (*KOKControlPlane) ValidateDelete(context.Context, *controlplanev1.KOKControlPlane) (admission.Warnings, error) {
	return nil, nil
}

var (
	portsPath   = field.NewPath("spec", "hosting", "ports")
	etcdPath    = field.NewPath("spec", "etcd")
	rolloutPath = field.NewPath("spec", "rollout")
)

func validateControlPlane(c *controlplanev1.KOKControlPlane, limits Limits, table *versions.Table) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateEndpoint(c.Spec.ControlPlaneEndpoint, path.Child("controlPlaneEndpoint"))
	errs = append(errs, validateOtherHostCluster(c, path)...)
	errs = append(errs, validateSettings(&c.Spec, path, limits)...)
	if len(errs) > 0 {
		return errs
	}
	return limits.validatePatches(c.Spec, table, path.Child("patches"))
}

func invalid(kind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: controlplanev1.GroupVersion.Group, Kind: kind}, name, errs)
}
