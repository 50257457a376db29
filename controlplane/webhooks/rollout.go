package webhooks

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
)

// validateRollout refuses components that take no former rendering again.
func validateRollout(spec controlplanev1.RolloutSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, named := range spec.Renderings {
		at := path.Child("renderings").Index(i).Child("component")
		switch _, known := registry.Components.Named(named.Component); {
		case registry.Components.TakesAgain(named.Component):
		case known:
			errs = append(errs, field.Invalid(at, named.Component,
				"takes no former rendering again, for its members may have data that an older etcd cannot read: remove the entry, and change what is wrong with its pods by spec.etcd or spec.patches"))
		default:
			errs = append(errs, field.NotSupported(at, named.Component, takeAgain()))
		}
	}
	return errs
}

// takeAgain are the components that take a former rendering again.
func takeAgain() []string {
	var all []string
	for _, name := range registry.Components.Names() {
		if registry.Components.TakesAgain(name) {
			all = append(all, name)
		}
	}
	return all
}

// warnOfRollout is what people read who ask for the newest renderings while some components are held at former ones.
func warnOfRollout(before, after controlplanev1.RolloutSpec, path *field.Path) admission.Warnings {
	if len(after.Renderings) == 0 || after.After.IsZero() || before.After.Equal(&after.After) {
		return nil
	}
	var held []string
	for _, named := range after.Renderings {
		held = append(held, named.Component)
	}
	return admission.Warnings{fmt.Sprintf("%s holds %s at a former rendering, whatever %s is: remove the entry to have the newest one, and then set another time",
		path.Child("renderings"), strings.Join(held, ", "), path.Child("after"))}
}
