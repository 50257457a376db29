package clusters

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestValidateNodeRanges(t *testing.T) {
	const path = "spec.clusterNetwork.pods.cidrBlocks"
	cases := []struct{ name, pods, argument, want string }{
		{"none", "", "", ""},
		{"usual", "192.168.0.0/16", "", ""},
		{"one node", "192.168.0.0/24", "", ""},
		{"usual for IPv6", "fd00::/56", "", ""},
		{"too small", "192.168.0.0/25", "", path + `[0]: Invalid value: "192.168.0.0/25": is smaller than the /24 that each node gets; choose a larger range, or set node-cidr-mask-size-ipv4 in kubeControllerManager.extraArgs`},
		{"small with smaller nodes", "192.168.0.0/25", "node-cidr-mask-size-ipv4=27", ""},
		{"small with smaller nodes, the old argument", "192.168.0.0/25", "node-cidr-mask-size=27", ""},
		{"the old argument in dual-stack", "192.168.0.0/25,fd00::/56", "node-cidr-mask-size=27", path + `[0]: Invalid value: "192.168.0.0/25": is smaller than the /24 that each node gets; choose a larger range, or set node-cidr-mask-size-ipv4 in kubeControllerManager.extraArgs`},
		{"larger nodes", "192.168.0.0/22", "node-cidr-mask-size-ipv4=20", path + `[0]: Invalid value: "192.168.0.0/22": is smaller than the /20 that each node gets; choose a larger range, or set node-cidr-mask-size-ipv4 in kubeControllerManager.extraArgs`},
		{"too large for IPv6", "fd00::/40", "", path + `[0]: Invalid value: "fd00::/40": is too large to be cut into a /64 for each node; choose a /48 or smaller, or set node-cidr-mask-size-ipv6 in kubeControllerManager.extraArgs`},
		{"large for IPv6 with larger nodes", "fd00::/40", "node-cidr-mask-size-ipv6=56", ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var args []controlplanev1.Arg
			if name, value, found := strings.Cut(tc.argument, "="); found {
				args = append(args, controlplanev1.Arg{Name: name, Value: ptr.To(value)})
			}
			expectErrors(t, tc.name, ValidateNodeRanges(cluster("a", "", tc.pods), args).ToAggregate(), tc.want)
		})
	}
}
