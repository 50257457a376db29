// Package services has what is known of a tenant's Services before they exist: their ranges and domain, and fixed addresses.
package services

import (
	"errors"
	"fmt"
	"net"
	"strings"

	netutils "k8s.io/utils/net"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// DefaultCIDR is the Service CIDR of a Cluster that names none, as in kubeadm.
	DefaultCIDR = "10.96.0.0/12"
	// DefaultDNSDomain is the domain of Services of a Cluster that names none, as in kubeadm.
	DefaultDNSDomain = "cluster.local"

	// apiIndex is the place of the Service kubernetes in the Service CIDR: kube-apiserver itself takes it.
	apiIndex = 1
	// dnsIndex is that of the DNS Service, as in kubeadm.
	dnsIndex = 10
	// apiPort is the port of the Service kubernetes.
	apiPort = "443"
)

// CIDRs are the Service CIDRs of a Cluster.
func CIDRs(cluster *clusterv1.Cluster) []string {
	if blocks := cluster.Spec.ClusterNetwork.Services.CIDRBlocks; len(blocks) > 0 {
		return blocks
	}
	return []string{DefaultCIDR}
}

// DNSDomain is the domain of the Services of a Cluster.
func DNSDomain(cluster *clusterv1.Cluster) string {
	if domain := cluster.Spec.ClusterNetwork.ServiceDomain; domain != "" {
		return domain
	}
	return DefaultDNSDomain
}

// Networks reads Service CIDRs of a Cluster. An error names the field.
func Networks(serviceCIDRs []string) ([]*net.IPNet, error) {
	// A dual-stack list may come as one string.
	networks, err := netutils.ParseCIDRs(strings.Split(strings.Join(serviceCIDRs, ","), ","))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return networks, nil
}

// API is the address of the Service kubernetes, IP:port, for the Service CIDRs of a Cluster. An error names the field.
func API(serviceCIDRs []string) (string, error) {
	address, err := indexed(serviceCIDRs, apiIndex)
	return net.JoinHostPort(address, apiPort), err
}

// DNS is the IP address of the DNS Service, for the Service CIDRs of a Cluster. An error names the field.
func DNS(serviceCIDRs []string) (string, error) { return indexed(serviceCIDRs, dnsIndex) }

const field = "spec.clusterNetwork.services.cidrBlocks of the Cluster"

// indexed is the address at a place in the first CIDR.
func indexed(serviceCIDRs []string, index int) (string, error) {
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
