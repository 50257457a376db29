package configuration

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/files"
)

// OfKubeconfig makes a configuration for an admin's machine from a kubeconfig. The server of the kubeconfig is the seed, and
// its user watches the EndpointSlice. A kubeconfig that "kok kubeconfig" wrote also says where to listen: that is its server,
// and its other clusters are the seeds. Empty addresses stand for those, or for the defaults. The CA's certificates and the
// list of API servers have their places below directory, each cluster's in a folder of its own. OfKubeconfig writes nothing:
// Prepare does.
func OfKubeconfig(path, listenAddress, statusAddress, directory string) (*Configuration, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	server, err := hostPort(config.Host)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	seeds, err := otherServers(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if local, ok := loopback(server); ok && len(seeds) > 0 {
		listenAddress = cmp.Or(listenAddress, local.String())
		statusAddress = cmp.Or(statusAddress, netip.AddrPortFrom(local.Addr(), local.Port()+1).String())
	} else {
		seeds = []string{server}
	}
	ca := config.CAData
	if len(ca) == 0 {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, fmt.Errorf("kubeconfig %s: read the CA's certificates: %w", path, err)
		}
	}
	sum := sha256.Sum256(ca)
	directory = filepath.Join(directory, hex.EncodeToString(sum[:8]))
	c := &Configuration{
		ListenAddress:            listenAddress,
		StatusAddress:            statusAddress,
		SeedBackends:             seeds,
		CertificateAuthorityFile: filepath.Join(directory, "ca.crt"),
		ServerName:               config.ServerName,
		KubeconfigFile:           path,
		StateFile:                filepath.Join(directory, "backends.json"),
		authority:                ca,
	}
	c.setDefaults()
	return c, c.validate()
}

// Prepare writes the CA's certificates of a kubeconfig to where the program reads them, unless they are there. Another program
// may read that file all the time, and the disk may be full.
func (c *Configuration) Prepare() error {
	if c.authority == nil {
		return nil
	}
	if there, err := os.ReadFile(c.CertificateAuthorityFile); err == nil && bytes.Equal(there, c.authority) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.CertificateAuthorityFile), 0o700); err != nil {
		return fmt.Errorf("make a folder for the CA's certificates: %w", err)
	}
	if err := files.Replace(c.CertificateAuthorityFile, c.authority); err != nil {
		return fmt.Errorf("write the CA's certificates: %w", err)
	}
	return nil
}

// otherServers are the servers of other clusters in the kubeconfig that have the same CA as the current context's, ordered
// by the names of the clusters.
func otherServers(path string) ([]string, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	current := ""
	if chosen := config.Contexts[config.CurrentContext]; chosen != nil {
		current = chosen.Cluster
	}
	own := config.Clusters[current]
	if own == nil || len(own.CertificateAuthorityData) == 0 {
		return nil, nil
	}
	var servers []string
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		cluster := config.Clusters[name]
		if name == current || !bytes.Equal(cluster.CertificateAuthorityData, own.CertificateAuthorityData) {
			continue
		}
		server, err := hostPort(cluster.Server)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		servers = append(servers, server)
	}
	return servers, nil
}

// hostPort is the host:port of a server.
func hostPort(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" {
		return "", fmt.Errorf("server %q is not an https URL", server)
	}
	return net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "443")), nil
}

// loopback reports whether a host:port is an address of loopback.
func loopback(server string) (netip.AddrPort, bool) {
	address, err := netip.ParseAddrPort(server)
	return address, err == nil && address.Addr().IsLoopback()
}
