package ownership

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// foreignLinks are prefixes of the names of network devices whose addresses belong to containers, pods or Services. CNI
// plugins, kube-proxy, NodeLocal DNSCache, container engines and virtual machines make them.
var foreignLinks = []string{
	"cni", "flannel", "cilium", "lxc", "cali", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali", "tunl", "kube-", "nodelocaldns",
	"docker", "podman", "nerdctl", "virbr", "vnet",
}

// dockerBridge matches the names of Docker's bridges. Other bridges named br-... are the host's own.
var dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)

// isForeign reports whether the addresses of a device are not the host's own.
func isForeign(link string) bool {
	return link == "lo" || dockerBridge.MatchString(link) || slices.ContainsFunc(foreignLinks, func(prefix string) bool { return strings.HasPrefix(link, prefix) })
}

// described is a device as ip-address(8) prints it in JSON. A device without an address of the scope may have no name.
type described struct {
	Name      string `json:"ifname"`
	Addresses []struct {
		Local string `json:"local"`
		Scope string `json:"scope"`
		// Addresses with one of these flags are left out: they are given up, not granted, or change with time (RFC 8981).
		Deprecated bool `json:"deprecated"`
		Tentative  bool `json:"tentative"`
		DADFailed  bool `json:"dadfailed"`
		Temporary  bool `json:"temporary"`
	} `json:"addr_info"`
}

// addresses are those of the host itself, in a fixed order. The loopback device is left out, and with it addresses that a
// program serves there, such as that of the Service kubernetes.
func addresses(ctx context.Context, h *hosts.Host) ([]netip.Addr, error) {
	output, err := h.Run(ctx, "ip", "-json", "address", "show", "scope", "global")
	if err != nil {
		return nil, err
	}
	var devices []described
	if err := json.Unmarshal(output, &devices); err != nil {
		return nil, fmt.Errorf("read the addresses of the host: %w", err)
	}
	return globalAddresses(devices), nil
}

func globalAddresses(devices []described) []netip.Addr {
	var found []netip.Addr
	for _, device := range devices {
		if isForeign(device.Name) {
			continue
		}
		for _, a := range device.Addresses {
			ip, err := netip.ParseAddr(a.Local)
			if err != nil || a.Scope != "global" || !ip.IsGlobalUnicast() || a.Deprecated || a.Tentative || a.DADFailed || a.Temporary {
				continue
			}
			found = append(found, ip)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
}
