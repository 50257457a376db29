// Package configuration is the configuration file of the load balancer: its fields, their defaults
// and rules.
package configuration

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	// DefaultPath is where the program looks for its configuration.
	DefaultPath = onworker.LoadBalancerDir + "config.yaml"
	// DefaultListenAddress is where clients connect.
	DefaultListenAddress = "127.0.0.1:6443"
	// DefaultStatusAddress serves status, metrics and health.
	DefaultStatusAddress = "127.0.0.1:6444"
	// DefaultServerName is a name in the certificate of every API server.
	DefaultServerName = "kubernetes.default.svc"
	// DefaultStopTimeout is how long a stop waits for connections to be quiet.
	DefaultStopTimeout = 2 * time.Second
	// longestStopTimeout is what the unit's own limit allows.
	longestStopTimeout = time.Minute
)

// Configuration is the content of the file. All times are Go durations, such as "2s".
type Configuration struct {
	// ListenAddress is where clients connect, an IP address of loopback with a port.
	ListenAddress string `json:"listenAddress,omitempty"`
	// StatusAddress serves status, metrics and health, an IP address of loopback with a port.
	StatusAddress string `json:"statusAddress,omitempty"`
	// SeedBackends are API servers, host:port. The program starts with them and never forgets them.
	SeedBackends []string `json:"seedBackends"`
	// CertificateAuthorityFile holds the certificates of the cluster's CA, by which probes verify API
	// servers. It is read again for each new connection of a probe.
	CertificateAuthorityFile string `json:"certificateAuthorityFile"`
	// ServerName is the name that certificates of API servers must have.
	ServerName string `json:"serverName,omitempty"`
	// KubeconfigFile names the user that watches the EndpointSlice default/kubernetes; its server is not
	// used. Without it only the seeds are known. Probes show the user's client certificate, if it has
	// one: API servers keep connections only for clients that authenticate.
	KubeconfigFile string `json:"kubeconfigFile,omitempty"`
	// StateFile keeps the list of API servers for the next start; empty for none.
	StateFile string `json:"stateFile,omitempty"`
	// ServiceAddress is the address, IP:port, of the tenant's Service kubernetes. This program then
	// serves that address on this machine. Empty means that it does not. It listens there at the port of
	// ListenAddress, so that the Service's port stays free. Linux only.
	ServiceAddress string `json:"serviceAddress,omitempty"`
	// AdditionalListeners carry connections to other ports of the same hosts, such as konnectivity's. When another program has
	// such an address, everything else works all the same.
	AdditionalListeners []Listener `json:"additionalListeners,omitempty"`
	// MaxConnections is how many connections clients of ListenAddress may have open. The default of this one and of the two
	// below is in DescriptorBounds: it depends on the file descriptors that the process may have.
	MaxConnections int `json:"maxConnections,omitempty"`
	// MaxServiceConnections is how many connections clients of ServiceAddress, which are pods, may have open.
	MaxServiceConnections int `json:"maxServiceConnections,omitempty"`
	// MaxServiceConnectionsPerSource is how many of them may come from one address, which is one pod or the worker itself.
	MaxServiceConnectionsPerSource int `json:"maxServiceConnectionsPerSource,omitempty"`
	// StopTimeout is how long a stop waits for connections to be quiet before it resets them.
	StopTimeout metav1.Duration `json:"stopTimeout,omitempty"`

	// authority is what Prepare writes to CertificateAuthorityFile; nil for a file that others write.
	authority []byte
}

// Listener carries connections to one port of all hosts that run an API server. A TLS server must listen there, because the
// client has to speak first. The states of the API servers decide which host is chosen.
type Listener struct {
	// ListenAddress is where clients connect, an IP address of loopback with a port.
	ListenAddress string `json:"listenAddress"`
	// BackendPort is the port on the API servers' hosts.
	BackendPort int `json:"backendPort"`
}

// Read reads a configuration file, sets defaults and checks it.
func Read(path string) (*Configuration, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse reads a configuration, sets defaults and checks it. Fields that it does not know are errors.
func Parse(content []byte) (*Configuration, error) {
	c := &Configuration{}
	if err := yaml.UnmarshalStrict(content, c); err != nil {
		return nil, err
	}
	c.setDefaults()
	return c, c.validate()
}

func (c *Configuration) setDefaults() {
	for field, value := range map[*string]string{
		&c.ListenAddress: DefaultListenAddress, &c.StatusAddress: DefaultStatusAddress, &c.ServerName: DefaultServerName,
	} {
		if *field == "" {
			*field = value
		}
	}
	if c.StopTimeout.Duration == 0 {
		c.StopTimeout.Duration = DefaultStopTimeout
	}
}

// validate returns all mistakes, each with the field that it is in.
func (c *Configuration) validate() error {
	var mistakes []error
	check := func(field string, err error) {
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", field, err))
		}
	}
	taken := map[string]string{}
	loopback := func(field, address string) {
		check(field, isLoopback(address))
		if other, ok := taken[address]; ok {
			check(field, fmt.Errorf("%s is the address of %s too", address, other))
		}
		taken[address] = field
	}
	loopback("listenAddress", c.ListenAddress)
	loopback("statusAddress", c.StatusAddress)
	for i, listener := range c.AdditionalListeners {
		field := fmt.Sprintf("additionalListeners[%d]", i)
		loopback(field+".listenAddress", listener.ListenAddress)
		check(field+".backendPort", isPort(listener.BackendPort))
	}
	if len(c.SeedBackends) == 0 {
		check("seedBackends", errors.New("at least one is needed"))
	}
	for i, seed := range c.SeedBackends {
		check(fmt.Sprintf("seedBackends[%d]", i), c.isBackend(seed))
	}
	check("certificateAuthorityFile", isPath(c.CertificateAuthorityFile, true))
	check("kubeconfigFile", isPath(c.KubeconfigFile, false))
	check("stateFile", isPath(c.StateFile, false))
	if c.ServiceAddress != "" {
		check("serviceAddress", isServiceAddress(c.ServiceAddress))
	}
	for field, count := range map[string]int{
		"maxConnections": c.MaxConnections, "maxServiceConnections": c.MaxServiceConnections, "maxServiceConnectionsPerSource": c.MaxServiceConnectionsPerSource,
	} {
		if count < 0 {
			check(field, fmt.Errorf("%d is less than 0", count))
		}
	}
	if c.StopTimeout.Duration < 0 || c.StopTimeout.Duration > longestStopTimeout {
		check("stopTimeout", fmt.Errorf("%s is not between 0 and %s", c.StopTimeout.Duration, longestStopTimeout))
	}
	return errors.Join(mistakes...)
}

func isLoopback(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not IP:port: %w", address, err)
	}
	if !parsed.Addr().IsLoopback() {
		return fmt.Errorf("%s is not an address of loopback: others must not reach this program", parsed.Addr())
	}
	return isPort(int(parsed.Port()))
}

func (c *Configuration) isBackend(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", address, err)
	}
	ip, _ := netip.ParseAddr(host)
	if host == "" || ip.IsUnspecified() {
		return fmt.Errorf("%q names no host", address)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("%q is not host:port: port %q is not a number", address, port)
	}
	localhost := strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
	for _, own := range c.Own() {
		same := own.Addr() == ip.Unmap() || localhost && own.Addr().IsLoopback()
		if same && int(own.Port()) == number {
			return fmt.Errorf("%s is this program's own address", address)
		}
	}
	return isPort(number)
}

// Own returns the addresses at which the program answers itself: none of them is an API server's.
func (c *Configuration) Own() []netip.AddrPort {
	all := []string{c.ListenAddress, c.StatusAddress, c.ServiceAddress}
	for _, listener := range c.AdditionalListeners {
		all = append(all, listener.ListenAddress)
	}
	var own []netip.AddrPort
	for _, address := range all {
		if parsed, err := netip.ParseAddrPort(address); err == nil {
			own = append(own, parsed)
		}
	}
	if listener := c.ServiceListener(); listener.IsValid() {
		own = append(own, listener)
	}
	return own
}

// ServiceListener is where connections to the Service arrive; invalid when there is no Service's address.
func (c *Configuration) ServiceListener() netip.AddrPort {
	service, err := netip.ParseAddrPort(c.ServiceAddress)
	listen, other := netip.ParseAddrPort(c.ListenAddress)
	if err != nil || other != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(service.Addr(), listen.Port())
}

func isServiceAddress(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not IP:port: %w", address, err)
	}
	if a := parsed.Addr(); a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() {
		return fmt.Errorf("%s cannot be the address of a Service", a)
	}
	return isPort(int(parsed.Port()))
}

func isPort(port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("%d is not a port", port)
	}
	return nil
}

func isPath(path string, required bool) error {
	switch {
	case path == "" && required:
		return errors.New("must be set")
	case path != "" && !filepath.IsAbs(path):
		return fmt.Errorf("%q is not an absolute path", path)
	}
	return nil
}
