package hostcluster

import (
	"fmt"
	"path/filepath"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// Labels and names that the rest of the project relies on.
const (
	// HostNodeLabel marks the nodes that may carry tenants' control planes.
	HostNodeLabel = "kok.cluster.x-k8s.io/host-node"
	// StorageClass is the default StorageClass.
	StorageClass = "local"

	zoneLabel = "topology.kubernetes.io/zone"
	apiPort   = 6443
)

// Config says what the host cluster is made of.
type Config struct {
	// Hosts are the cluster's nodes, booted. The first of the cloud site carries the control plane.
	Hosts []*host.Host
	// Set are the artifacts that the hosts' disks are made from.
	Set *artifacts.Set
	// Network is what the hosts are in; host.DefaultNetwork when it is the zero value.
	Network host.Network
	// StateDir keeps the certificate authorities and the administrator's kubeconfig.
	StateDir string
	// Progress is called with each step, and may be nil.
	Progress func(string)
}

// network is the network of the hosts.
func (c Config) network() host.Network {
	if c.Network == (host.Network{}) {
		return host.DefaultNetwork()
	}
	return c.Network
}

// KubeconfigPath is where Bring writes the administrator's kubeconfig.
func KubeconfigPath(stateDir string) string { return filepath.Join(stateDir, "kubeconfig") }

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// controlPlane is the host that carries the host cluster's own control plane.
func (c Config) controlPlane() (*host.Host, error) {
	for _, h := range c.Hosts {
		if h.Site == host.SiteCloud {
			return h, nil
		}
	}
	return nil, fmt.Errorf("none of the %d hosts stands in the cloud, where the host cluster's control plane runs", len(c.Hosts))
}
