// Package balancers starts TCP load balancers in front of kube-apiservers, each as its documentation has it: our own
// kok-apiserver-lb, and HAProxy and nginx of Debian.
package balancers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

// logLines is how much of a log is shown.
const logLines = 100

// Config says in front of what a load balancer is.
type Config struct {
	// Directory, which exists, gets its files.
	Directory string
	// Backends are kube-apiservers, host:port.
	Backends []string
	// Keys has the certificate authority of the kube-apiservers.
	Keys *pki.KeyMaterial
}

// Balancer is a load balancer.
type Balancer struct {
	// Name is the program's.
	Name string
	// Address is where clients connect, host:port.
	Address string

	argv   []string
	log    string
	daemon *daemon.Daemon
}

// Start starts it and returns when it serves connections.
func (b *Balancer) Start(ctx context.Context) error {
	var err error
	if b.daemon, err = daemon.Start(b.log, b.argv...); err != nil {
		return err
	}
	return b.daemon.While(ctx, func(ctx context.Context) error {
		dialer := &net.Dialer{}
		err := wait.PollUntilContextCancel(ctx, probe.Interval, true, func(ctx context.Context) (bool, error) {
			connection, err := dialer.DialContext(ctx, "tcp", b.Address)
			if err != nil {
				return false, nil //nolint:nilerr // It comes up.
			}
			return true, connection.Close()
		})
		if err != nil {
			return fmt.Errorf("wait until %s serves at %s: %w", b.Name, b.Address, err)
		}
		return nil
	})
}

// Stop stops it (SIGTERM) and waits until it has ended; when the context ends first it is killed.
func (b *Balancer) Stop(ctx context.Context) error {
	select {
	case <-b.daemon.Done():
		return nil
	default:
	}
	if err := b.daemon.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := b.daemon.Wait(ctx)
	b.daemon.Kill()
	return err
}

// Close kills it.
func (b *Balancer) Close() {
	if b.daemon != nil {
		b.daemon.Kill()
	}
}

// Usage is what it uses of the machine.
func (b *Balancer) Usage() (daemon.Usage, error) { return b.daemon.Usage() }

// Log is the end of what it wrote.
func (b *Balancer) Log() string { return string(processes.LastLines(b.log, logLines)) }

// write writes a file of a load balancer and returns its path.
func (c *Config) write(name string, content []byte) (string, error) {
	path := filepath.Join(c.Directory, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", err
	}
	return path, nil
}
