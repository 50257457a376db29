package configuration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// OfKubeconfig makes a configuration for an admin's machine of a kubeconfig: its server is the seed,
// its user watches the EndpointSlice. Both addresses may
// be empty for the defaults. directory, made when it is missing, gets a copy of the CA's
// certificates and the list of API servers, each cluster's in a folder of its own.
func OfKubeconfig(path, listenAddress, statusAddress, directory string) (*Configuration, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	server, err := url.Parse(config.Host)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return nil, fmt.Errorf("kubeconfig %s: server %q is not an https URL", path, config.Host)
	}
	ca := config.CAData
	if len(ca) == 0 {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, fmt.Errorf("kubeconfig %s: read the CA's certificates: %w", path, err)
		}
	}
	sum := sha256.Sum256(ca)
	directory = filepath.Join(directory, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	c := &Configuration{
		ListenAddress:            listenAddress,
		StatusAddress:            statusAddress,
		SeedBackends:             []string{net.JoinHostPort(server.Hostname(), portOf(server))},
		CertificateAuthorityFile: filepath.Join(directory, "ca.crt"),
		ServerName:               config.ServerName,
		KubeconfigFile:           path,
		StateFile:                filepath.Join(directory, "backends.json"),
	}
	if err := os.WriteFile(c.CertificateAuthorityFile, ca, 0o600); err != nil {
		return nil, err
	}
	c.setDefaults()
	return c, c.validate()
}

func portOf(server *url.URL) string {
	if port := server.Port(); port != "" {
		return port
	}
	return "443"
}
