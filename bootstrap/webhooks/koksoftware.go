package webhooks

import (
	"context"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/validation"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-koksoftware,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=koksoftwares,versions=v1alpha1,name=validation.koksoftware.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KOKSoftware validates KOKSoftware. The schema keeps immutable fields from changing.
type KOKSoftware struct{}

var _ admission.Validator[*bootstrapv1.KOKSoftware] = &KOKSoftware{}

// ValidateCreate refuses software that no machine could install.
func (*KOKSoftware) ValidateCreate(_ context.Context, s *bootstrapv1.KOKSoftware) (admission.Warnings, error) {
	return nil, invalid("KOKSoftware", s.Name, validateDescribed(s.Spec, field.NewPath("spec")))
}

// ValidateUpdate refuses mirrors that no machine could use.
func (*KOKSoftware) ValidateUpdate(_ context.Context, before, after *bootstrapv1.KOKSoftware) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return nil, invalid("KOKSoftware", after.Name, validateDescribed(after.Spec, field.NewPath("spec")))
}

// ValidateDelete allows every deletion: machines that exist do not read it any more.
func (*KOKSoftware) ValidateDelete(context.Context, *bootstrapv1.KOKSoftware) (admission.Warnings, error) {
	return nil, nil
}

func validateDescribed(spec bootstrapv1.KOKSoftwareSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, installer := range spec.Installers {
		errs = append(errs, validateURLs(installer.URLs, path.Child("installers").Index(i).Child("urls"))...)
	}
	for i, mirror := range spec.Mirrors {
		for j, endpoint := range mirror.Endpoints {
			at := path.Child("mirrors").Index(i).Child("endpoints").Index(j).Child("url")
			if strings.Contains(mirror.Prefix, "://") {
				errs = append(errs, check(cloudinit.CheckURL(endpoint.URL), at, endpoint.URL)...)
			} else if strings.Contains(endpoint.URL, "://") {
				errs = append(errs, field.Invalid(at, endpoint.URL, "must be the address of a registry, without https://, because prefix is the beginning of a reference of an image"))
			}
		}
	}
	errs = append(errs, validateComponents(spec.Components, path.Child("components"))...)
	if len(errs) > 0 {
		return errs
	}
	return validateDocument(spec, path)
}

// validateDocument refuses what kok-software would refuse on the machine: a stored KOKSoftware is immutable.
func validateDocument(spec bootstrapv1.KOKSoftwareSpec, path *field.Path) field.ErrorList {
	err := validation.Validate(software.Document{Components: spec.Components, Kernel: spec.Kernel})
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
}

func validateURLs(urls []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, url := range urls {
		errs = append(errs, check(cloudinit.CheckURL(url), path.Index(i), url)...)
	}
	return errs
}

func validateComponents(components []bootstrapv1.SoftwareComponent, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	owners := map[string]string{}
	for i, component := range components {
		at := path.Index(i)
		for j, name := range component.After {
			if !slices.ContainsFunc(components, func(other bootstrapv1.SoftwareComponent) bool { return other.Name == name }) {
				errs = append(errs, field.NotFound(at.Child("after").Index(j), name))
			}
		}
		for j, file := range component.Files {
			errs = append(errs, validateOwned(file.Path, component.Name, owners, at.Child("files").Index(j).Child("path"))...)
		}
		if cloudinit.OwnedUnit(component.Unit.Name) {
			errs = append(errs, field.Invalid(at.Child("unit", "name"), component.Unit.Name, "comes with the bootstrap data; remove unit"))
		}
		paths := map[string]bool{}
		for j, variant := range component.Variants {
			errs = append(errs, validateURLs(variant.Archive.URLs, at.Child("variants").Index(j).Child("archive", "urls"))...)
			for k, unpack := range variant.Archive.Unpack {
				to := at.Child("variants").Index(j).Child("archive", "unpack").Index(k)
				switch folder, isFolder := strings.CutSuffix(unpack.To, "/"); {
				case isFolder: // Components may have files in the same folder.
					errs = append(errs, validatePath(folder, to.Child("to"))...)
				case !paths[unpack.To]: // Variants may put the same file in place.
					errs = append(errs, validateOwned(unpack.To, component.Name, owners, to.Child("to"))...)
				}
				paths[unpack.To] = true
				if strings.HasSuffix(unpack.From, "/") != strings.HasSuffix(unpack.To, "/") {
					errs = append(errs, field.Invalid(to.Child("to"), unpack.To, "must end in a slash when from does, and only then: a folder goes to a folder"))
				}
			}
		}
	}
	return append(errs, validateOrder(components, path)...)
}

// validateOwned refuses a path that is ours, or that of another component.
func validateOwned(value, component string, owners map[string]string, path *field.Path) field.ErrorList {
	if errs := validatePath(value, path); len(errs) > 0 {
		return errs
	}
	owner, taken := owners[value]
	owners[value] = component
	if taken && owner != component {
		return field.ErrorList{field.Invalid(path, value, "belongs to the component "+owner+", too; a file can come from one component alone")}
	}
	if taken {
		return field.ErrorList{field.Duplicate(path, value)}
	}
	return nil
}

// validateOrder refuses components that wait for each other.
func validateOrder(components []bootstrapv1.SoftwareComponent, path *field.Path) field.ErrorList {
	ordered := map[string]bool{}
	for {
		before := len(ordered)
		for _, component := range components {
			waits := slices.ContainsFunc(component.After, func(name string) bool { return !ordered[name] })
			if !waits {
				ordered[component.Name] = true
			}
		}
		if len(ordered) == before {
			break
		}
	}
	var errs field.ErrorList
	for i, component := range components {
		known := !slices.ContainsFunc(component.After, func(name string) bool {
			return !slices.ContainsFunc(components, func(other bootstrapv1.SoftwareComponent) bool { return other.Name == name })
		})
		if !ordered[component.Name] && known {
			errs = append(errs, field.Invalid(path.Index(i).Child("after"), component.After, "leads in a circle: the component would wait for itself"))
		}
	}
	return errs
}
