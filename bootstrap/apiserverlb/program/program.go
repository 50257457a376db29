// Package program puts the parts of the load balancer together, starts them in order and stops them.
package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/balancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/discovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/health"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// Program is a load balancer.
type Program struct {
	// Serving, unless nil, is called by Run once clients can connect.
	Serving func()

	configuration *configuration.Configuration
	log           logr.Logger
	started       time.Time

	backends *backends.Set
	balancer *balancer.Balancer
	checker  *health.Checker
	// probing counts the bytes of probes.
	probing wire.Counter
	// watcher is nil without a kubeconfig.
	watcher *discovery.Watcher
	// gates are the listeners' gates, by address.
	gates []*gate
	// service is nil without a Service's address.
	service *service
	status  *http.Server
}

// New makes a load balancer of a configuration. It opens nothing.
func New(c *configuration.Configuration, log logr.Logger) (*Program, error) {
	probing := health.TLS(func() ([]byte, error) { return os.ReadFile(c.CertificateAuthorityFile) }, c.ServerName, identity(c))
	if _, err := probing(); err != nil {
		return nil, fmt.Errorf("certificateAuthorityFile %s: %w", c.CertificateAuthorityFile, err)
	}
	var kept []string
	if c.StateFile != "" {
		var err error
		if kept, err = discovery.Load(c.StateFile); err != nil {
			log.Error(err, "The kept list of API servers is not used")
		}
	}
	set, err := backends.NewSet(c.SeedBackends, kept, c.Own())
	if err != nil {
		return nil, err
	}
	allowed, err := descriptors()
	if err != nil {
		return nil, err
	}
	bounds, err := c.DescriptorBounds(allowed)
	if err != nil {
		return nil, err
	}
	p := &Program{configuration: c, log: log, started: time.Now(), backends: set, gates: gatesOf(c, bounds)}
	p.probing.Control = set.NotItself
	p.balancer = balancer.New(set, balancer.DefaultTiming, log)
	p.checker = health.New(set, func(address string) health.Probe {
		return health.NewReadyz(address, probing, health.DefaultTiming, &p.probing)
	}, health.DefaultTiming, log)
	if c.KubeconfigFile != "" {
		p.watcher = discovery.New(discovery.Options{
			Kubeconfig: c.KubeconfigFile, Address: c.ListenAddress, CAFile: c.CertificateAuthorityFile, ServerName: c.ServerName,
			UserAgent: "kok-apiserver-lb/" + version.Get().GitVersion, StateFile: c.StateFile,
		}, set, log)
	}
	if c.ServiceAddress != "" {
		address, err := netip.ParseAddrPort(c.ServiceAddress)
		if err != nil {
			return nil, fmt.Errorf("serviceAddress: %w", err)
		}
		p.service = &service{address: address, local: c.ServiceListener(), log: log, serve: func(listener *net.TCPListener) {
			p.balancer.Serve(balancer.Listener{TCPListener: listener, Service: true, Gate: p.gate(c.ServiceAddress)})
		}}
	}
	p.status = status.NewServer(p.Report, p.checker.Alive)
	return p, nil
}

// identity reads the client certificate that discovery uses; it is nil without a kubeconfig.
func identity(c *configuration.Configuration) func() (*tls.Certificate, error) {
	if c.KubeconfigFile == "" {
		return nil
	}
	return func() (*tls.Certificate, error) { return discovery.ClientCertificate(c.KubeconfigFile) }
}

// Run serves until the context ends. Then it accepts no more connections, gives the Service's address back, and waits for
// connections to be quiet, at most for the configuration's StopTimeout.
func (p *Program) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.configuration.ListenAddress)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	statusListener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.configuration.StatusAddress)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("listen for status: %w", err)
	}
	// Probes and discovery go on until the clients' connections have drained.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	failed := make(chan error, 1)
	running.Go(func() {
		if err := p.status.Serve(netutil.LimitListener(statusListener, statusConnections)); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve status: %w", err)
		}
	})
	running.Go(func() { p.checker.Run(working) })
	running.Go(func() {
		p.balancer.Serve(balancer.Listener{TCPListener: listener.(*net.TCPListener), Gate: p.gate(p.configuration.ListenAddress)})
	})
	for _, wanted := range p.configuration.AdditionalListeners {
		running.Go(func() { p.serveAdditional(ctx, wanted) })
	}
	if p.watcher != nil {
		running.Go(func() { p.watcher.Run(ctx) })
	}
	if p.service != nil {
		running.Go(func() { p.service.hold(ctx) })
	}
	running.Go(func() { p.notify(ctx) })
	p.log.Info("Serving", "Address", p.configuration.ListenAddress, "Backends", addresses(p.backends.All()))
	if p.Serving != nil {
		p.Serving()
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	end()
	p.stop(listener)
	stop()
	running.Wait()
	return err
}

// stop ends what clients use.
func (p *Program) stop(listener net.Listener) {
	p.log.Info("Stopping", "Connections", p.balancer.Connections())
	_ = listener.Close()
	if p.service != nil {
		p.service.close()
		p.balancer.ResetService()
		p.service.giveBack()
	}
	draining, cancel := context.WithTimeout(context.Background(), p.configuration.StopTimeout.Duration)
	defer cancel()
	p.balancer.Drain(draining)
	_ = p.status.Close()
}

func addresses(all []*backends.Backend) []string {
	addresses := make([]string, len(all))
	for i, b := range all {
		addresses[i] = b.Address
	}
	return addresses
}
