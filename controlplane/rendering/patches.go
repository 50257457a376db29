// Package rendering renders what can be rendered of a spec without a cluster, to learn before whether its patches apply.
package rendering

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// ValidatePatches says what is wrong with the patches of a spec, with at most one error for each component. It applies them to the
// renderings of the spec. It does so even if the table lacks the spec's version: a control plane with that version goes on, and its patches
// may change. The patches of a spec that cannot be rendered are not judged, because the spec is refused for what is wrong with it. path is
// that of the list of patches.
func ValidatePatches(spec controlplanev1.KOKControlPlaneSpec, table *versions.Table, allow patches.Allow, path *field.Path) field.ErrorList {
	if len(spec.Patches) == 0 {
		return nil
	}
	in, tenant, err := Sample(spec, table)
	if err != nil {
		return nil //nolint:nilerr // See above.
	}
	var errs field.ErrorList
	judge := func(target patches.Target, render func() ([]client.Object, error)) {
		isTarget := func(p controlplanev1.Patch) bool { return p.Target.Component == target.Name }
		if !slices.ContainsFunc(spec.Patches, isTarget) {
			return
		}
		objects, err := render()
		if err != nil {
			return
		}
		_, err = patches.Apply(target, objects, spec.Patches, allow)
		var refused *patches.Error
		if errors.As(err, &refused) {
			errs = append(errs, field.Invalid(path.Index(refused.Index), field.OmitValueType{}, refused.Details()))
		}
	}
	present := registry.Components.Of(&spec)
	for i, patch := range spec.Patches {
		_, known := registry.Components.Named(patch.Target.Component)
		if _, has := present.Named(patch.Target.Component); known && !has {
			errs = append(errs, field.Invalid(path.Index(i).Child("target", "component"), patch.Target.Component,
				"a control plane whose etcd.events.mode is InData goes without it: remove the patch"))
		}
	}
	for _, component := range present {
		judge(component.Target(), func() ([]client.Object, error) { return ObjectsOf(component, in) })
	}
	for _, addon := range addons.All {
		judge(addon.Target(), func() ([]client.Object, error) { return addons.Render(addon, tenant) })
	}
	return errs
}
