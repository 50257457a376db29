package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

const (
	// servers is the number of kube-apiservers; one more is added to see how workers learn it.
	servers = 3
	// stepLimit bounds what is waited for in one step.
	stepLimit = 3 * time.Minute
	// quiet is the share of busy processors below which measuring begins.
	quiet = 0.15
)

// way is a way to the kube-apiservers.
type way struct {
	name string
	// balancer is nil for the direct way.
	balancer *balancers.Balancer
	// addresses are what clients connect to, in turn.
	addresses []string
}

// bench is a benchmark that runs.
type bench struct {
	*options
	// directory has all files.
	directory string
	cluster   *apiservers.Cluster
	ways      []*way
	report    *report
}

func run(ctx context.Context, o *options) (err error) {
	directory, err := os.MkdirTemp("", directories)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	b := &bench{options: o, directory: directory, report: &report{}}
	if b.cluster, err = apiservers.Start(ctx, o.assets, directory, servers+1); err != nil {
		return err
	}
	defer b.cluster.Close()
	if err := b.startServers(ctx); err != nil {
		return err
	}
	defer b.closeBalancers()
	if slices.ContainsFunc(b.measures, func(measure string) bool { return measure != measureWorkers }) {
		if err := b.startBalancers(ctx); err != nil {
			return err
		}
	}
	busy, err := machine.Settle(ctx, quiet, o.settleLimit)
	if err != nil {
		return err
	}
	fmt.Printf("%.0f%% of the processors busy before it begins\n", 100*busy)
	if busy >= quiet {
		fmt.Println("WARNING: the machine is busy with something else: times are too long, ratios less so")
	}
	// What was measured before something failed is worth reading.
	err = b.measure(ctx)
	return errors.Join(b.report.print(os.Stdout, b.ways), figures.Write("bench-lb", b.report.figures()), err)
}

func (b *bench) measure(ctx context.Context) error {
	for _, m := range []struct {
		name string
		do   func(context.Context) error
	}{
		{measureRequests, b.requests}, {measureConnections, b.newConnections}, {measureList, b.list},
		{measureWatches, b.manyWatches}, {measureFaults, b.faults}, {measureWorkers, b.manyWorkers},
	} {
		if !slices.Contains(b.measures, m.name) {
			continue
		}
		fmt.Println("measure", m.name)
		if err := m.do(ctx); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return nil
}

func (b *bench) startServers(ctx context.Context) error {
	fmt.Println("start etcd and", servers, "kube-apiservers")
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	for _, server := range b.running() {
		if err := server.Start(); err != nil {
			return err
		}
	}
	for _, server := range b.running() {
		if err := server.Ready(ctx); err != nil {
			return err
		}
	}
	return b.cluster.Listed(ctx, b.running()...)
}

func (b *bench) startBalancers(ctx context.Context) error {
	config := &balancers.Config{Directory: b.directory, Keys: b.cluster.Keys, Backends: b.servers()}
	b.ways = []*way{{name: "direct", addresses: b.servers()}}
	for _, prepare := range []func() (*balancers.Balancer, error){
		func() (*balancers.Balancer, error) { return balancers.KOK(b.program, config) },
		func() (*balancers.Balancer, error) { return balancers.HAProxy(config) },
		func() (*balancers.Balancer, error) { return balancers.NGINX(config) },
	} {
		balancer, err := prepare()
		if err != nil {
			return err
		}
		w := &way{name: balancer.Name, balancer: balancer, addresses: []string{balancer.Address}}
		b.ways = append(b.ways, w)
		if err := b.start(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// start starts a load balancer and has it known its backends.
func (b *bench) start(ctx context.Context, w *way) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := w.balancer.Start(ctx); err != nil {
		return err
	}
	if w.balancer.Name == balancers.KOKName {
		return balancers.Knows(ctx, b.servers()...)
	}
	return nil
}

// restart gives a measurement a load balancer that has carried nothing before.
func (b *bench) restart(ctx context.Context, w *way) error {
	stopping, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := w.balancer.Stop(stopping); err != nil {
		return err
	}
	return b.start(ctx, w)
}

func (b *bench) closeBalancers() {
	for _, w := range b.ways {
		if w.balancer != nil {
			w.balancer.Close()
		}
	}
}

// running are the kube-apiservers that all measurements have.
func (b *bench) running() []*apiservers.Server { return b.cluster.Servers[:servers] }

// servers are the addresses of the kube-apiservers.
func (b *bench) servers() []string {
	all := make([]string, servers)
	for i, server := range b.running() {
		all[i] = server.Address()
	}
	return all
}

// turns gives every way its turn, round after round, each round beginning with another.
func (b *bench) turns(ctx context.Context, turn func(w *way, round int) error) error {
	for round := range b.rounds {
		for i := range b.ways {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w := b.ways[(round+i)%len(b.ways)]
			if err := turn(w, round); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

// usage of a way's load balancer; none for the direct way.
func (w *way) usage() (daemon.Usage, error) {
	if w.balancer == nil {
		return daemon.Usage{}, nil
	}
	return w.balancer.Usage()
}

// client is a client with connections of its own to a way.
type client struct {
	http *http.Client
	url  string
}

// client makes the i-th client of a way. A fresh one has a new connection for every request.
func (b *bench) client(w *way, i int, fresh bool) (*client, error) {
	configuration := b.cluster.Config
	if fresh {
		configuration = b.cluster.FreshConfig
	}
	config, err := configuration(w.addresses[i%len(w.addresses)])
	if err != nil {
		return nil, err
	}
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &client{http, config.Host}, nil
}
