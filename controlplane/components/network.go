package components

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
)

// DefaultAPIServerPort is the port of a tenant's API unless its Cluster names another, as in kubeadm.
const DefaultAPIServerPort = 6443

// NetworkOf is the network that a Cluster asks for. Without Pod CIDRs nodes are given none.
func NetworkOf(cluster *clusterv1.Cluster) Network {
	network := Network{
		PodCIDRs:      cluster.Spec.ClusterNetwork.Pods.CIDRBlocks,
		ServiceCIDRs:  services.CIDRs(cluster),
		DNSDomain:     services.DNSDomain(cluster),
		APIServerPort: cluster.Spec.ClusterNetwork.APIServerPort,
	}
	if network.APIServerPort == 0 {
		network.APIServerPort = DefaultAPIServerPort
	}
	return network
}
