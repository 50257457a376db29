// Package services knows the addresses of a tenant's Services that are fixed before the Services are there.
package services

import (
	"errors"
	"fmt"
	"net"
	"strings"

	netutils "k8s.io/utils/net"
)

const (
	// apiIndex is the place of the Service kubernetes in the Service CIDR: kube-apiserver itself takes it.
	apiIndex = 1
	// dnsIndex is that of the DNS Service, as in kubeadm.
	dnsIndex = 10
	// apiPort is the port of the Service kubernetes.
	apiPort = "443"
)

// API is the address of the Service kubernetes, IP:port, for the Service CIDRs of a Cluster. An error names the field.
func API(serviceCIDRs []string) (string, error) {
	address, err := indexed(serviceCIDRs, apiIndex)
	return net.JoinHostPort(address, apiPort), err
}

// DNS is the IP address of the DNS Service, for the Service CIDRs of a Cluster. An error names the field.
func DNS(serviceCIDRs []string) (string, error) { return indexed(serviceCIDRs, dnsIndex) }

// indexed is the address at a place in the first CIDR.
func indexed(serviceCIDRs []string, index int) (string, error) {
	const field = "spec.clusterNetwork.services.cidrBlocks of the Cluster"
	if len(serviceCIDRs) == 0 {
		return "", errors.New(field + " is empty")
	}
	// A dual-stack list may come as one string.
	first, _, _ := strings.Cut(serviceCIDRs[0], ",")
	_, network, err := netutils.ParseCIDRSloppy(first)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	address, err := netutils.GetIndexedIP(network, index)
	if err != nil {
		return "", fmt.Errorf("%s: take address %d of %s: %w", field, index, first, err)
	}
	return address.String(), nil
}
