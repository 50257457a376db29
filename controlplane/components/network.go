package components

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Defaults of a tenant's network, as kubeadm has them.
const (
	DefaultServiceCIDR   = "10.96.0.0/12"
	DefaultDNSDomain     = "cluster.local"
	DefaultAPIServerPort = 6443
)

// NetworkOf is the network that a Cluster asks for. Without Pod CIDRs nodes are given none.
func NetworkOf(cluster *clusterv1.Cluster) Network {
	network := Network{
		PodCIDRs:      cluster.Spec.ClusterNetwork.Pods.CIDRBlocks,
		ServiceCIDRs:  cluster.Spec.ClusterNetwork.Services.CIDRBlocks,
		DNSDomain:     cluster.Spec.ClusterNetwork.ServiceDomain,
		APIServerPort: cluster.Spec.ClusterNetwork.APIServerPort,
	}
	if len(network.ServiceCIDRs) == 0 {
		network.ServiceCIDRs = []string{DefaultServiceCIDR}
	}
	if network.DNSDomain == "" {
		network.DNSDomain = DefaultDNSDomain
	}
	if network.APIServerPort == 0 {
		network.APIServerPort = DefaultAPIServerPort
	}
	return network
}
