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

// ValidatePatches says what is wrong with the patches of a spec, at most one of each component, by
// applying them to what the spec is rendered as, also where the table lacks its version: a control plane that has
// it goes on, and its patches may change. A spec that cannot be rendered at all is not judged: it is refused for what is
// wrong with it. The path is that of the list.
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
