// Package floor starts a control plane as plain processes on the lab's hosts: the programs, arguments, files and
// certificates that the provider gives to its containers, without the containers. It is as fast as that control plane
// can be on these hosts.
package floor

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

const (
	// directory on every host; it is on the file system of the host cluster's local volumes.
	directory = "/var/lib/local-volumes/kok-bench-floor"
	// firstPort is below the range of tenants' blocks.
	firstPort = 19980
	// cluster is the name of the floor's control plane.
	cluster = "floor"
)

// process is one process of the floor.
type process struct {
	*processes.Process
	host *host.Host
}

// rendering is everything of one floor.
type rendering struct {
	processes []*process
	keys      *pki.KeyMaterial
}

func render(ctx context.Context, config *Config) (*rendering, error) {
	rendered, err := processes.Render(ctx, &processes.Config{
		Cluster: cluster, Shape: config.Shape, Version: config.Version, Spec: config.Spec, Network: config.Network,
		Address:   func(component string, replica int) netip.Addr { return config.host(component, replica).Address },
		Directory: directory, FirstPort: firstPort,
	})
	if err != nil {
		return nil, err
	}
	result := &rendering{keys: rendered.Keys}
	for _, p := range rendered.Processes {
		for _, h := range config.Hosts {
			if h.Address == p.Address {
				result.processes = append(result.processes, &process{Process: p, host: h})
			}
		}
	}
	return result, nil
}

// host gives the hosts that have a kube-apiserver in turn.
func (c *Config) host(component string, replica int) *host.Host {
	if component == names.KubeScheduler {
		replica++ // not all on the same hosts
	}
	return c.Hosts[replica%min(len(c.Hosts), int(c.Shape.APIServers))]
}

// endpoint is where a kube-apiserver of the floor serves.
func endpoint(h *host.Host) string {
	return "https://" + net.JoinHostPort(h.Address.String(), fmt.Sprint(components.DefaultAPIServerPort))
}

// Config says which floor is started.
type Config struct {
	Shape shape.Shape
	// Hosts carry it.
	Hosts []*host.Host
	// Version, Spec and Network are those of the tenant that it is compared with; Spec has its defaults.
	Version string
	Spec    controlplanev1.KOKControlPlaneSpec
	Network components.Network
}
