package webhooks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
)

// validateComponent has the rules for what can be said of every component.
func validateComponent(settings *components.Settings, all *controlplanev1.KOKControlPlaneSpec, path *field.Path) field.ErrorList {
	spec := settings.Spec(all)
	errs := validateImage(spec.Image, path.Child("image"))
	errs = append(errs, validateArgs(settings.Arguments, spec.ExtraArgs, path.Child("extraArgs"))...)
	errs = append(errs, validateResources(spec.Resources, path.Child("resources"))...)
	return append(errs, validateVolumes(spec.ExtraVolumes, path.Child("extraVolumes"))...)
}

func validateArgs(rules arguments.Rules, args []controlplanev1.Arg, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, arg := range args {
		if reason, owned := rules.Reason(arg.Name); owned {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), arg.Name, "belongs to the controller: "+reason))
			continue
		}
		if arg.Value == nil {
			continue
		}
		if err := rules.CheckValue(arg.Name, *arg.Value); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("value"), *arg.Value, err.Error()))
		}
	}
	return errs
}

func validateResources(resources *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	if resources == nil {
		return nil
	}
	var errs field.ErrorList
	if len(resources.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), "components have no resource claims; set requests and limits"))
	}
	for _, name := range sortedKeys(resources.Limits) {
		limit := resources.Limits[name]
		errs = append(errs, validateResource(name, limit, path.Child("limits").Key(string(name)))...)
		if limit.IsZero() {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), limit.String(), "must be more than zero; leave it out for no limit"))
		}
	}
	for _, name := range sortedKeys(resources.Requests) {
		request := resources.Requests[name]
		at := path.Child("requests").Key(string(name))
		errs = append(errs, validateResource(name, request, at)...)
		if limit, ok := resources.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be at most the limit, %s", limit.String())))
		}
	}
	return errs
}

func validateResource(name corev1.ResourceName, quantity resource.Quantity, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(string(name), path)
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	if !slices.Contains(known, name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !strings.Contains(string(name), "/") {
		errs = append(errs, field.NotSupported(path, name, known))
	}
	if quantity.Sign() < 0 {
		errs = append(errs, field.Invalid(path, quantity.String(), "must not be negative"))
	}
	if name != corev1.ResourceCPU && quantity.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, quantity.String(), "must be whole: \"m\" means thousandths; write Mi for mebibytes"))
	}
	return errs
}

// validatePositive wants a size in whole bytes.
func validatePositive(quantity *resource.Quantity, example string, path *field.Path) field.ErrorList {
	if quantity == nil {
		return nil
	}
	if quantity.Sign() <= 0 || quantity.MilliValue()%1000 != 0 {
		return field.ErrorList{field.Invalid(path, quantity.String(), "must be a positive number of bytes, for example "+example)}
	}
	return nil
}

func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return len(validation.IsDNS1123Subdomain(host)) == 0
}

func sortedKeys(list corev1.ResourceList) []corev1.ResourceName {
	keys := make([]corev1.ResourceName, 0, len(list))
	for key := range list {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
