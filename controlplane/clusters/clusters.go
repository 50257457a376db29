package clusters

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// MaxNameLength is the length that a Cluster's name can have. The StatefulSet of an etcd is
// "<cluster>-<component>", and Kubernetes puts "<StatefulSet>-<hash of 10>" into a label of its pods,
// which has 63 characters at most.
var MaxNameLength = validation.LabelValueMaxLength - len(names.Object("", longest(etcdcomponent.Components()))) - len("-0123456789")

func longest(texts []string) string {
	return slices.MaxFunc(texts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}

// The smallest Service range that kube-apiserver starts with has 8 addresses. The first one has 16, for the tenth is that of the DNS Service.
// The largest IPv6 range that it allocates from is a /64. There is no upper limit for IPv4 since Kubernetes v1.34,
// which keeps allocations in IPAddress objects and not in one bitmap.
const (
	minServiceHostBits  = 3
	minFirstHostBits    = 4
	minServicePrefixIP6 = 64
)

var (
	servicesPath = field.NewPath("spec", "clusterNetwork", "services", "cidrBlocks")
	podsPath     = field.NewPath("spec", "clusterNetwork", "pods", "cidrBlocks")
	domainPath   = field.NewPath("spec", "clusterNetwork", "serviceDomain")
	portPath     = field.NewPath("spec", "clusterNetwork", "apiServerPort")
)

// Validate says everything that keeps the Cluster from having a control plane.
func Validate(cluster *clusterv1.Cluster) field.ErrorList {
	return append(ValidateName(cluster), ValidateClusterNetwork(cluster)...)
}

// ValidateName refuses names from which no valid names of objects can be made.
func ValidateName(cluster *clusterv1.Cluster) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "name")
	if len(cluster.Name) > MaxNameLength {
		errs = append(errs, field.Invalid(path, cluster.Name,
			fmt.Sprintf("must be at most %d characters: names and labels of the control plane's objects start with it", MaxNameLength)))
	}
	if problems := validation.IsDNS1035Label(cluster.Name); len(problems) > 0 && len(cluster.Name) <= validation.DNS1035LabelMaxLength {
		errs = append(errs, field.Invalid(path, cluster.Name,
			"must be lower case letters, digits and '-', start with a letter and end with a letter or digit: Services of the control plane are named after it"))
	}
	return errs
}

// ValidateClusterNetwork refuses a network that kube-apiserver or kube-controller-manager would not
// start with, or in which addresses would mean two things. What is left out counts with its default.
func ValidateClusterNetwork(cluster *clusterv1.Cluster) field.ErrorList {
	network := components.NetworkOf(cluster)
	services, errs := parse(servicesPath, network.ServiceCIDRs)
	pods, podErrs := parse(podsPath, network.PodCIDRs)
	errs = append(errs, podErrs...)
	for _, problem := range validation.IsDNS1123Subdomain(network.DNSDomain) {
		errs = append(errs, field.Invalid(domainPath, network.DNSDomain, problem))
	}
	for i, prefix := range services {
		errs = append(errs, validateServiceSize(servicesPath.Index(i), prefix, i == 0)...)
	}
	for i, pod := range pods {
		for _, service := range services {
			if pod.IsValid() && service.IsValid() && pod.Overlaps(service) {
				errs = append(errs, field.Invalid(podsPath.Index(i), pod.String(),
					fmt.Sprintf("overlaps %s, the range of Services; choose ranges without a common address", serviceName(cluster, service))))
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return validateFamilies(pods, services)
}

// ValidateChange refuses what a running control plane does not survive: its certificates, tokens and
// Services were made for the network that it has.
func ValidateChange(before, after *clusterv1.Cluster) field.ErrorList {
	if !ptr.Deref(before.Status.Initialization.ControlPlaneInitialized, false) {
		return nil
	}
	const running = "cannot be changed once the control plane is initialized, %s; %s, or create a new Cluster"
	goBack := func(to string) string {
		if to == "" {
			return "leave it out"
		}
		return fmt.Sprintf("go back to %q", to)
	}
	was, is := components.NetworkOf(before), components.NetworkOf(after)
	var errs field.ErrorList
	if !slices.Equal(was.ServiceCIDRs, is.ServiceCIDRs) {
		errs = append(errs, field.Invalid(servicesPath, is.ServiceCIDRs,
			fmt.Sprintf(running, "Services have addresses of it", goBack(strings.Join(was.ServiceCIDRs, ",")))))
	}
	if !slices.Equal(was.PodCIDRs, is.PodCIDRs) {
		errs = append(errs, field.Invalid(podsPath, is.PodCIDRs,
			fmt.Sprintf(running, "nodes have parts of it", goBack(strings.Join(was.PodCIDRs, ",")))))
	}
	if was.DNSDomain != is.DNSDomain {
		errs = append(errs, field.Invalid(domainPath, is.DNSDomain,
			fmt.Sprintf(running, "service account tokens name it as their issuer", goBack(was.DNSDomain))))
	}
	if was.APIServerPort != is.APIServerPort {
		errs = append(errs, field.Invalid(portPath, is.APIServerPort,
			fmt.Sprintf(running, "kubeconfigs name it", goBack(strconv.Itoa(int(was.APIServerPort))))))
	}
	return errs
}

// parse reads ranges; those that are wrong stay invalid in the result, so that indexes still fit.
func parse(path *field.Path, ranges []string) ([]netip.Prefix, field.ErrorList) {
	var errs field.ErrorList
	if len(ranges) > 2 {
		errs = append(errs, field.TooMany(path, len(ranges), 2))
	}
	prefixes := make([]netip.Prefix, len(ranges))
	for i, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text, "must be a range in CIDR notation, for example 10.96.0.0/12"))
		case prefix.Addr().Is4In6():
			errs = append(errs, field.Invalid(path.Index(i), text, "must not be an IPv4 range written as IPv6"))
		case prefix != prefix.Masked():
			errs = append(errs, field.Invalid(path.Index(i), text, fmt.Sprintf("must start at the first address of the range: %s", prefix.Masked())))
		default:
			prefixes[i] = prefix
		}
	}
	if len(prefixes) == 2 && prefixes[0].IsValid() && prefixes[1].IsValid() && prefixes[0].Addr().Is4() == prefixes[1].Addr().Is4() {
		errs = append(errs, field.Invalid(path.Index(1), ranges[1], "must be of the other IP family than the first: two ranges are for dual-stack only"))
	}
	return prefixes, errs
}

func validateServiceSize(path *field.Path, prefix netip.Prefix, first bool) field.ErrorList {
	if !prefix.IsValid() {
		return nil
	}
	smallest, smallestFirst := prefix.Addr().BitLen()-minServiceHostBits, prefix.Addr().BitLen()-minFirstHostBits
	switch {
	case first && prefix.Bits() > smallestFirst:
		return field.ErrorList{field.Invalid(path, prefix.String(), fmt.Sprintf("is too small: the DNS Service has its tenth address, choose a /%d or larger", smallestFirst))}
	case prefix.Bits() > smallest:
		return field.ErrorList{field.Invalid(path, prefix.String(), fmt.Sprintf("is too small: kube-apiserver needs a /%d or larger", smallest))}
	case prefix.Addr().Is6() && prefix.Bits() < minServicePrefixIP6:
		return field.ErrorList{field.Invalid(path, prefix.String(), fmt.Sprintf("is too large: kube-apiserver allocates from an IPv6 range of /%d or smaller", minServicePrefixIP6))}
	}
	return nil
}

// validateFamilies wants pods to have an address of every family that Services have, and the same
// first family in both: it decides the family of a Service that does not ask for one.
func validateFamilies(pods, services []netip.Prefix) field.ErrorList {
	if len(pods) == 0 {
		return nil
	}
	if len(services) > len(pods) {
		return field.ErrorList{field.Invalid(podsPath, fmt.Sprint(pods), "must have a range of both IP families, as services have")}
	}
	if pods[0].Addr().Is4() != services[0].Addr().Is4() {
		return field.ErrorList{field.Invalid(podsPath.Index(0), pods[0].String(),
			fmt.Sprintf("must be of the same IP family as %s, the first range of Services", services[0]))}
	}
	return nil
}

func serviceName(cluster *clusterv1.Cluster, prefix netip.Prefix) string {
	if len(cluster.Spec.ClusterNetwork.Services.CIDRBlocks) == 0 {
		return fmt.Sprintf("%s (the default)", prefix)
	}
	return prefix.String()
}
