package webhooks

import (
	"net/netip"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

func validateRequirements(r infrav1.HostRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.HostSelector != nil {
		errs = metav1validation.ValidateLabelSelector(r.HostSelector, metav1validation.LabelSelectorValidationOptions{}, path.Child("hostSelector"))
	}
	return append(errs, validateResources(r.MinCapacity, path.Child("minCapacity"))...)
}

func validateResources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var errs field.ErrorList
	for _, name := range names {
		for _, problem := range validation.IsQualifiedName(name) {
			errs = append(errs, field.Invalid(path, name, problem))
		}
		if quantity := list[corev1.ResourceName(name)]; quantity.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Key(name), quantity.String(), "must be more than nothing, for example cpu: \"8\" or memory: 16Gi"))
		}
	}
	return errs
}

// validateAddress refuses an address that is neither an IP address nor a DNS name.
func validateAddress(address string, path *field.Path) field.ErrorList {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip.IsUnspecified() || ip.IsMulticast() {
			return field.ErrorList{field.Invalid(path, address, "is no address of a host")}
		}
		return nil
	}
	if len(validation.IsDNS1123Subdomain(address)) > 0 {
		return field.ErrorList{field.Invalid(path, address, "must be an IP address or a DNS name, without user and port; these have fields of their own")}
	}
	return nil
}

// userName matches the names that useradd(8) accepts, and capital letters, which some directories have.
var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`)

func validateUser(user string, path *field.Path) field.ErrorList {
	if userName.MatchString(user) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, user, "must be a user name of letters, digits, '.', '_' and '-', for example admin")}
}
