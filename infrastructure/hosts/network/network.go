// Package network removes from a host what kubelet, kube-proxy and CNI plugins leave in its network: namespaces of pods,
// devices, routes, and packet filter rules. The host's own devices, routes and rules stay.
package network

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// namespacesDir has the network namespaces of pods, named cni-...
const namespacesDir = "/run/netns"

// nodeLinks are network devices that CNI plugins and kube-proxy make once for a node. Those of WireGuard have a private key.
var nodeLinks = []string{
	"cni0", "flannel.1", "flannel-v6.1", "flannel-wg", "flannel-wg-v6", "cilium_host", "cilium_net", "cilium_vxlan", "cilium_geneve", "cilium_wg0",
	"vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali", "kube-ipvs0",
}

// Remove removes the network namespaces of pods and the devices of a node.
func Remove(ctx context.Context, h *hosts.Host) error {
	namespaces, err := h.Entries(ctx, namespacesDir)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if name, ok := strings.CutPrefix(namespace, namespacesDir+"/cni-"); ok {
			if err := h.Change(ctx, "ip", "netns", "delete", "cni-"+name); err != nil {
				return err
			}
		}
	}
	there, err := links(ctx, h)
	if err != nil {
		return err
	}
	for _, link := range there {
		// The other device of a pair is gone with the first.
		if err := h.TryChange(ctx, "ip", "link", "delete", link); err != nil {
			return err
		}
	}
	return nil
}

// links are the network devices of a node that exist. They are read by netlink, because /sys may show those of another host
// where this host is a container.
func links(ctx context.Context, h *hosts.Host) ([]string, error) {
	output, err := h.Run(ctx, "ip", "-json", "link", "show")
	if err != nil {
		return nil, err
	}
	var all []struct {
		Name string `json:"ifname"`
	}
	if err := json.Unmarshal(output, &all); err != nil {
		return nil, fmt.Errorf("read the network devices of the host: %w", err)
	}
	var there []string
	for _, link := range all {
		if slices.Contains(nodeLinks, link.Name) {
			there = append(there, link.Name)
		}
	}
	return there, nil
}

// Left names the devices and packet filter rules of a node that are still on the host.
func Left(ctx context.Context, h *hosts.Host, programs []string) ([]string, error) {
	there, err := links(ctx, h)
	if err != nil {
		return nil, err
	}
	rules, err := rulesLeft(ctx, h, programs)
	return append(hosts.Named("network device", there), rules...), err
}
