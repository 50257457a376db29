package webhooks

import (
	"fmt"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// validatePatches applies the patches to what the spec is rendered as, without a cluster.
func (l Limits) validatePatches(spec controlplanev1.KOKControlPlaneSpec, table *versions.Table, path *field.Path) field.ErrorList {
	return rendering.ValidatePatches(spec, table, l.Allow, path)
}

// Allow holds what a patch adds to pods in the host cluster, or what a stored rendering has, to the limits of the fields for it.
func (l Limits) Allow(added patches.Additions) []string {
	pod := field.NewPath("spec", "template", "spec")
	errs := l.validateTolerations(added.Tolerations, added.NodeSelector[controlplanev1.PortPoolLabel], pod.Child("tolerations"))
	errs = append(errs, l.validateNodeSelector(added.NodeSelector, pod.Child("nodeSelector"))...)
	for _, container := range added.Containers {
		path := pod.Child("containers").Key(container.Name).Child("image")
		errs = append(errs, validateImage(container.Image, path)...)
		if container.Image == "" {
			errs = append(errs, field.Required(path, "the image of the added container"))
		} else if named, err := reference.ParseNormalizedNamed(container.Image); err == nil {
			errs = append(errs, l.validateRepository(named.Name(), container.Image, path)...)
		}
	}
	problems := make([]string, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, fmt.Sprintf("%s: %s", err.Field, err.ErrorBody()))
	}
	return problems
}
