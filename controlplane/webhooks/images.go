package webhooks

import (
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// validateImage wants a whole image: registry or path, and a tag or a digest.
func validateImage(image string, path *field.Path) field.ErrorList {
	if image == "" {
		return nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return field.ErrorList{field.Invalid(path, image, "must be an image like registry.k8s.io/name:tag or registry.k8s.io/name@sha256:...: "+err.Error())}
	}
	if reference.IsNameOnly(named) {
		return field.ErrorList{field.Invalid(path, image, "must have a tag or a digest, for example "+image+":v1.0.0")}
	}
	return nil
}

// validateImageRepository wants something to which "/<name>:<tag>" can be added.
func validateImageRepository(repository string, path *field.Path) field.ErrorList {
	if repository == "" {
		return nil
	}
	const example = "must be a registry with an optional path, without a tag and a slash at the end, for example registry.k8s.io"
	named, err := reference.ParseNormalizedNamed(repository + "/name:v1.0.0")
	if err != nil || strings.HasSuffix(repository, "/") {
		return field.ErrorList{field.Invalid(path, repository, example)}
	}
	if _, ok := named.(reference.Canonical); ok {
		return field.ErrorList{field.Invalid(path, repository, example)}
	}
	return nil
}

// validateImagePullSecret wants the name of a Secret.
func validateImagePullSecret(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, "must be the name of a Secret: "+problem))
	}
	return errs
}

// validateAddons wants whole images.
func validateAddons(addons controlplanev1.AddonsSpec, path *field.Path) field.ErrorList {
	errs := validateImage(addons.KubeProxy.Image, path.Child("kubeProxy", "image"))
	errs = append(errs, validateImage(addons.CoreDNS.Image, path.Child("coreDNS", "image"))...)
	errs = append(errs, validateImage(addons.Konnectivity.ServerImage, path.Child("konnectivity", "serverImage"))...)
	return append(errs, validateImage(addons.Konnectivity.AgentImage, path.Child("konnectivity", "agentImage"))...)
}
