// Package apiservers runs a real etcd and several real kube-apiservers as plain processes, rendered as the provider
// renders its pods, each at an address of its own and all at the same port. Each can fail in all the ways there are.
//
// It needs the namespaces of package isolation.
package apiservers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

const (
	// name of the control plane; its namespace has the same.
	name = "apiservers"
	// firstPort of etcd's ports.
	firstPort = 20000
)

// Cluster is an etcd with its kube-apiservers.
type Cluster struct {
	// Keys has the certificate authorities.
	Keys *pki.KeyMaterial
	// Servers are all kube-apiservers that there can be; none runs before its Start.
	Servers []*Server

	// inside says which objects a tenant has from its provider.
	inside    tenant.Settings
	directory string
	etcds     []*daemon.Daemon
}

// Start starts etcd and prepares a number of kube-apiservers. assets is the folder with the programs; directory, which
// exists, gets all files.
func Start(ctx context.Context, assets, directory string, servers int) (*Cluster, error) {
	config := configuration(directory, servers)
	rendered, err := processes.Render(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("render kube-apiservers: %w", err)
	}
	c := &Cluster{Keys: rendered.Keys, directory: directory, inside: tenant.Settings{
		ClusterName: name, Version: config.Version, ServiceCIDRs: config.Network.ServiceCIDRs, CABundle: rendered.Keys.ClusterCA.Bundle,
	}}
	for _, p := range rendered.Processes {
		if err := p.Write(func(path string) string { return path }); err != nil {
			return nil, err
		}
		p.Argv[0] = filepath.Join(assets, p.Argv[0])
		switch p.Component {
		case names.EtcdData, names.EtcdEvents:
			if err := c.startEtcd(p); err != nil {
				c.Close()
				return nil, err
			}
		case names.KubeAPIServer:
			// All have the same port on one machine.
			p.Argv = append(p.Argv, "--bind-address="+p.Address.String())
			c.Servers = append(c.Servers, &Server{process: p, log: c.log(p)})
		}
	}
	return c, nil
}

// Close kills everything.
func (c *Cluster) Close() {
	for _, s := range c.Servers {
		if s.daemon != nil {
			s.Kill()
		}
	}
	for _, etcd := range c.etcds {
		etcd.Kill()
	}
}

func (c *Cluster) startEtcd(p *processes.Process) error {
	etcd, err := daemon.Start(c.log(p), p.Argv...)
	if err == nil {
		c.etcds = append(c.etcds, etcd)
	}
	return err
}

func (c *Cluster) log(p *processes.Process) string { return filepath.Join(c.directory, p.Name+".log") }

// address of a kube-apiserver in the network of hosts; all else is on loopback.
func address(component string, replica int) netip.Addr {
	if component != names.KubeAPIServer {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	first := isolation.Prefix.Addr().As4()
	first[3] = byte(replica + 1)
	return netip.AddrFrom4(first)
}

func configuration(directory string, servers int) *processes.Config {
	s := shape.Single
	s.APIServers = int32(servers)
	version := artifacts.DefaultVersions().Host
	cluster, controlPlane := s.Objects(client.ObjectKey{Namespace: name, Name: name}, version, nil)
	spec := controlPlane.Spec
	for _, etcd := range []*controlplanev1.EtcdClusterSpec{&spec.Etcd.Data, &spec.Etcd.Events.EtcdClusterSpec} {
		etcd.QuotaBackendSize, etcd.Storage.Size = ptr.To(resource.MustParse("2Gi")), ptr.To(resource.MustParse("8Gi"))
	}
	return &processes.Config{
		Cluster: name, Shape: s, Version: version, Spec: spec, Network: components.NetworkOf(cluster),
		Address: address, Directory: directory, FirstPort: firstPort,
	}
}

func (c *Cluster) issuer() certificates.Issuer {
	return certificates.Issuer{Keys: c.Keys, Clock: clock.RealClock{}}
}

// Config is a client configuration of an administrator for server, host:port, with a connection of its own that is kept.
func (c *Cluster) Config(server string) (*rest.Config, error) {
	return c.issuer().RESTConfig("https://"+server, "kubernetes-admin", []string{"system:masters"})
}

// FreshConfig is Config with a new connection for every request.
func (c *Cluster) FreshConfig(server string) (*rest.Config, error) {
	tls, err := c.issuer().ClientTLS(pki.ClusterCA, "kubernetes-admin", []string{"system:masters"}, certificates.TenantServerName)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: "https://" + server, QPS: -1, Transport: utilnet.SetTransportDefaults(&http.Transport{
		Proxy:             func(*http.Request) (*url.URL, error) { return nil, nil },
		DialContext:       (&net.Dialer{}).DialContext,
		TLSClientConfig:   tls,
		DisableKeepAlives: true,
	})}, nil
}

// Listed waits until the EndpointSlice default/kubernetes, as the first of the servers has it, lists the servers and no
// others. It takes 15 seconds until a kube-apiserver that was killed is off the list.
func (c *Cluster) Listed(ctx context.Context, servers ...*Server) error {
	config, err := c.Config(servers[0].Address())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	want, found := []string{}, []string{}
	for _, s := range servers {
		want = append(want, s.process.Address.String())
	}
	slices.Sort(want)
	err = wait.PollUntilContextCancel(ctx, probe.Interval, true, func(ctx context.Context) (bool, error) {
		slice, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // It comes up.
		}
		found = listed(slice)
		return slices.Equal(found, want), nil
	})
	if err != nil {
		return fmt.Errorf("wait until EndpointSlice default/kubernetes lists %v; it has %v: %w", want, found, err)
	}
	return nil
}

func listed(slice *discoveryv1.EndpointSlice) []string {
	var found []string
	for _, endpoint := range slice.Endpoints {
		found = append(found, endpoint.Addresses...)
	}
	slices.Sort(found)
	return found
}
