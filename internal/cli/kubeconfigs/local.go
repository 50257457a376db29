package kubeconfigs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
)

// local makes a kubeconfig for this machine from a stored one. Its server is a port of loopback. Each API server, host:port,
// is a cluster of its own in it: kok-apiserver-lb starts with these. Without API servers it is the stored server.
func local(stored *clientcmdapi.Config, port uint16, servers []string) (*clientcmdapi.Config, error) {
	chosen := stored.Contexts[stored.CurrentContext]
	if chosen == nil || stored.Clusters[chosen.Cluster] == nil || stored.AuthInfos[chosen.AuthInfo] == nil {
		return nil, errors.New("its current context has no cluster or no user")
	}
	cluster := stored.Clusters[chosen.Cluster]
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil, errors.New("it has no certificate authority in it")
	}
	if len(servers) == 0 {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, err
		}
		servers = []string{net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "443"))}
	}
	made := clientcmdapi.NewConfig()
	made.CurrentContext = stored.CurrentContext
	made.Contexts[stored.CurrentContext] = chosen
	made.AuthInfos[chosen.AuthInfo] = stored.AuthInfos[chosen.AuthInfo]
	front := cluster.DeepCopy()
	front.Server = "https://" + loopback(port)
	made.Clusters[chosen.Cluster] = front
	for i, server := range servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return nil, fmt.Errorf("API server %q is not address:port: %w", server, err)
		}
		behind := cluster.DeepCopy()
		// The API servers' certificates lack the addresses of nodes.
		behind.Server, behind.TLSServerName = "https://"+server, configuration.DefaultServerName
		made.Clusters[fmt.Sprintf("%s-api-server-%03d", chosen.Cluster, i+1)] = behind
	}
	return made, nil
}

// loopback is the address of loopback with a port.
func loopback(port uint16) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String()
}

// serversIn are the API servers of a kubeconfig that local made.
func serversIn(made *clientcmdapi.Config) []string {
	var servers []string
	own := made.Contexts[made.CurrentContext].Cluster
	for _, name := range slices.Sorted(maps.Keys(made.Clusters)) {
		if name != own {
			servers = append(servers, made.Clusters[name].Server)
		}
	}
	return servers
}

// portIn is the port of loopback that a kubeconfig's clients use; 0 for none.
func portIn(config *clientcmdapi.Config) uint16 {
	cluster := current(config)
	if cluster == nil {
		return 0
	}
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return 0
	}
	address, err := netip.ParseAddrPort(server.Host)
	if err != nil || !address.Addr().IsLoopback() {
		return 0
	}
	return address.Port()
}

func current(config *clientcmdapi.Config) *clientcmdapi.Cluster {
	if chosen := config.Contexts[config.CurrentContext]; chosen != nil {
		return config.Clusters[chosen.Cluster]
	}
	return nil
}
