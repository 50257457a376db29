package cloudinit

import (
	"errors"
	"fmt"
	"strings"

	netutils "k8s.io/utils/net"
)

// Addresses of the first Service CIDR that are known before the Services are there.
const (
	// apiIndex is that of the Service kubernetes: kube-apiserver takes it itself.
	apiIndex = 1
	// dnsIndex is that of the DNS Service, by kubeadm's convention.
	dnsIndex = 10
)

// serviceAddress is the address with an index in the first Service CIDR.
func serviceAddress(serviceCIDRs []string, index int) (string, error) {
	if len(serviceCIDRs) == 0 {
		return "", errors.New("spec.clusterNetwork.services.cidrBlocks of the Cluster is empty")
	}
	// A dual-stack list may come as one string.
	first, _, _ := strings.Cut(serviceCIDRs[0], ",")
	_, network, err := netutils.ParseCIDRSloppy(first)
	if err != nil {
		return "", fmt.Errorf("spec.clusterNetwork.services.cidrBlocks of the Cluster: %w", err)
	}
	address, err := netutils.GetIndexedIP(network, index)
	if err != nil {
		return "", fmt.Errorf("spec.clusterNetwork.services.cidrBlocks of the Cluster: take address %d of %s: %w", index, first, err)
	}
	return address.String(), nil
}
