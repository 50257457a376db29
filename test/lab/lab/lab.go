// Package lab is a real host cluster on one machine: the hosts of a cloud and of a data centre, joined by a link that
// can be cut. The program test/lab offers it on the command line; tests and benchmarks use it from Go.
//
// Every call that changes the lab holds its lock, so that two programs cannot change it at once.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// DefaultState is the lab's state directory when KOK_LAB_STATE names no other.
const DefaultState = "/var/lib/kok-lab"

// auditLog is where the host cluster's apiserver writes its audit log, on cloud-1.
const auditLog = "/var/log/kubernetes/audit.log"

// Lab is one lab on this machine, up or not.
type Lab struct {
	state   string
	network host.Network
}

// StateDirectory is KOK_LAB_STATE, or DefaultState.
func StateDirectory() string {
	if directory := os.Getenv("KOK_LAB_STATE"); directory != "" {
		return directory
	}
	return DefaultState
}

// Open gives the lab of a state directory; it need not be up.
func Open(stateDirectory string) (*Lab, error) {
	return OpenIn(stateDirectory, host.DefaultNetwork())
}

// OpenIn is Open for a lab with a network of its own, which can be up beside the usual one.
func OpenIn(stateDirectory string, network host.Network) (*Lab, error) {
	directory, err := filepath.Abs(stateDirectory)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(directory, ":,\\ ") {
		return nil, fmt.Errorf("state directory %q: the name may have no space and none of : , \\", directory)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab makes network namespaces and boots hosts: run it as root")
	}
	return &Lab{state: directory, network: network}, nil
}

// Hosts gives the lab's hosts: the cloud's first, then by number.
func (l *Lab) Hosts() ([]*host.Host, error) { return host.List(l.network, l.state) }

// WorkersSince are the workers that came since the lab had former hosts.
func (l *Lab) WorkersSince(former []*host.Host) ([]*host.Host, error) {
	hosts, err := l.Hosts()
	return slices.DeleteFunc(hosts, func(h *host.Host) bool {
		return !h.Worker() || slices.ContainsFunc(former, func(f *host.Host) bool { return f.Name == h.Name })
	}), err
}

// Host gives one host by name.
func (l *Lab) Host(name string) (*host.Host, error) {
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		if h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no host %q: the lab is not up", name)
	}
	return nil, fmt.Errorf("no host %q: there are %s", name, strings.Join(names, ", "))
}

// Kubeconfig is the file with the credentials of the host cluster's administrator; it works on this machine.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.state, "kubeconfig") }

// RESTConfig is a client configuration of the host cluster's administrator.
func (l *Lab) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the lab's kubeconfig (is the lab up?): %w", err)
	}
	return config, nil
}

// AuditLogPath is the audit log of the host cluster's apiserver: one JSON event a line.
func (l *Lab) AuditLogPath() (string, error) {
	h, err := l.Host("cloud-1")
	if err != nil {
		return "", err
	}
	return h.DiskPath(auditLog), nil
}

// BalancedAddresses are the first and the last address for load balancers of the host cluster: the lab has no load balancer
// of its own, and nothing else has these.
func (l *Lab) BalancedAddresses() (first, last netip.Addr) { return l.network.Balanced() }

// Cut breaks the link between the sites: what is open hangs. This machine still reaches both sites.
func (l *Lab) Cut(ctx context.Context) error {
	return l.locked(ctx, func() error { return host.Cut(l.network) })
}

// Heal ends a Cut.
func (l *Lab) Heal(ctx context.Context) error {
	return l.locked(ctx, func() error { return host.Heal(l.network) })
}

// IsCut tells whether the link is cut.
func (l *Lab) IsCut() (bool, error) { return host.IsCut(l.network) }

// PowerOff takes a host's power: no connection is closed, no process is asked.
func (l *Lab) PowerOff(ctx context.Context, name string) error {
	return l.withHost(ctx, name, (*host.Host).PowerOff)
}

// PowerOn boots a host from the disk that it had, and waits for its basic system.
func (l *Lab) PowerOn(ctx context.Context, name string) error {
	return l.withHost(ctx, name, (*host.Host).PowerOn)
}

func (l *Lab) withHost(ctx context.Context, name string, f func(*host.Host, context.Context) error) error {
	return l.locked(ctx, func() error {
		h, err := l.Host(name)
		if err != nil {
			return err
		}
		return f(h, ctx)
	})
}
