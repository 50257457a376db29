package cloudinit

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// loadBalancer is the configuration of kok-apiserver-lb.
type loadBalancer struct {
	// Listen is the loopback address that kubelet dials.
	Listen string `json:"listen"`
	// Seeds are the API servers that are tried until the machine has learned others.
	Seeds []string `json:"seeds"`
	// CAFile is what the API servers' certificates are checked with.
	CAFile string `json:"caFile"`
	// Kubeconfig names the node's own certificate.
	Kubeconfig string `json:"kubeconfig"`
	// StateFile keeps the API servers that the machine has learned.
	StateFile string `json:"stateFile"`
}

func addLoadBalancer(d *document, in *Input) error {
	content, err := yaml.Marshal(loadBalancer{
		Listen: LocalServer, Seeds: in.Cluster.APIServers, CAFile: CAFile, Kubeconfig: Kubeconfig, StateFile: LoadBalancerState,
	})
	if err != nil {
		return fmt.Errorf("marshal the load balancer's configuration: %w", err)
	}
	d.WriteFiles = append(d.WriteFiles,
		ownFile(LoadBalancerConfiguration, "0644", content),
		ownFile(unitDir+loadBalancerUnit, "0644", asset(loadBalancerUnit)))
	return nil
}
