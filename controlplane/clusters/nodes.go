package clusters

import (
	"fmt"
	"net/netip"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
)

// Prefix lengths of the ranges that kube-controller-manager gives to nodes when no argument says
// otherwise, and how much longer than the cluster's range that of a node can be for IPv6.
const (
	defaultNodePrefixIP4 = 24
	defaultNodePrefixIP6 = 64
	maxNodeDifferenceIP6 = 16
)

// ValidateNodeRanges refuses Pod ranges out of which kube-controller-manager cannot cut a range for
// each node; it would not start. It needs the Cluster's ranges and the control plane's arguments.
// Only the controller has both.
func ValidateNodeRanges(cluster *clusterv1.Cluster, arguments []controlplanev1.Arg) field.ErrorList {
	pods, errs := parse(podsPath, components.NetworkOf(cluster).PodCIDRs)
	if len(errs) > 0 {
		return errs
	}
	for i, pod := range pods {
		node := nodePrefix(pod, len(pods) > 1, arguments)
		switch {
		case pod.Bits() > node:
			errs = append(errs, field.Invalid(podsPath.Index(i), pod.String(),
				fmt.Sprintf("is smaller than the /%d that each node gets; choose a larger range, or set %s in kubeControllerManager.extraArgs", node, prefixArgument(pod))))
		case pod.Addr().Is6() && node-pod.Bits() > maxNodeDifferenceIP6:
			errs = append(errs, field.Invalid(podsPath.Index(i), pod.String(),
				fmt.Sprintf("is too large to be cut into a /%d for each node; choose a /%d or smaller, or set %s in kubeControllerManager.extraArgs",
					node, node-maxNodeDifferenceIP6, prefixArgument(pod))))
		}
	}
	return errs
}

// nodePrefix is the length that kube-controller-manager takes for a node's range out of this one.
func nodePrefix(pods netip.Prefix, dualStack bool, arguments []controlplanev1.Arg) int {
	prefix := defaultNodePrefixIP6
	if pods.Addr().Is4() {
		prefix = defaultNodePrefixIP4
	}
	for _, argument := range arguments {
		if argument.Value == nil || argument.Name != prefixArgument(pods) && (dualStack || argument.Name != "node-cidr-mask-size") {
			continue
		}
		if length, err := strconv.Atoi(*argument.Value); err == nil && length > 0 {
			prefix = length
		}
	}
	return prefix
}

func prefixArgument(pods netip.Prefix) string {
	if pods.Addr().Is4() {
		return "node-cidr-mask-size-ipv4"
	}
	return "node-cidr-mask-size-ipv6"
}
