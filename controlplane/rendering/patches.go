package rendering

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

// ValidatePatches says what is wrong with the patches of a spec, at most one of each component, by
// applying them to what the spec is rendered as. A spec that cannot be rendered at all is not judged: it is
// refused for what is wrong with it. The path is that of the list.
func ValidatePatches(spec controlplanev1.KOKControlPlaneSpec, allow patches.Allow, path *field.Path) field.ErrorList {
	if len(spec.Patches) == 0 {
		return nil
	}
	in, tenant, err := Sample(spec)
	if err != nil {
		return nil //nolint:nilerr // See above.
	}
	var errs field.ErrorList
	judge := func(component string, objects []client.Object) {
		_, err := patches.Apply(component, objects, spec.Patches, allow)
		var refused *patches.Error
		if errors.As(err, &refused) {
			errs = append(errs, field.Invalid(path.Index(refused.Index), field.OmitValueType{}, refused.Details()))
		}
	}
	for _, component := range Components {
		if objects, err := ObjectsOf(component, in); err == nil {
			judge(component.Name, objects)
		}
	}
	for _, addon := range addons.All {
		if objects, err := addons.Render(addon, tenant); err == nil {
			judge(addon.Name, objects)
		}
	}
	return errs
}
