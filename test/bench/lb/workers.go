package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

const (
	// settling is how long kube-apiservers are left alone after they started and after workers connected.
	settling = 5 * time.Second
	// arrivalLimit is how long workers may take to connect: a machine that is too slow for them never has them all, as late
	// answers have them probe more often.
	arrivalLimit = time.Minute
	// spreading is how often workers are asked whether a change came to them; when it came they know themselves.
	spreading = 250 * time.Millisecond
)

// manyWorkers measures what the load balancers of many workers cost kube-apiservers that have nothing else to do.
func (b *bench) manyWorkers(ctx context.Context) (err error) {
	if err := b.renewServers(ctx); err != nil {
		return err
	}
	configurations, err := b.prepareWorkers()
	if err != nil {
		return err
	}
	c := &cost{workers: b.workers, servers: servers}
	<-time.After(settling)
	fmt.Println("  none")
	if c.without, err = b.window(ctx, &crowd{}); err != nil {
		return err
	}
	fmt.Println(" ", b.workers)
	connecting, cancel := context.WithTimeout(ctx, arrivalLimit)
	defer cancel()
	workers, err := startCrowd(connecting, configurations)
	if err != nil {
		return fmt.Errorf("%w: this machine is too slow or too busy for so many --workers", err)
	}
	defer func() { err = errors.Join(err, workers.close()) }()
	<-time.After(settling)
	if c.with, err = b.window(ctx, workers); err != nil {
		return err
	}
	fmt.Println("  another kube-apiserver")
	if c.change, err = b.addServer(ctx, workers); err != nil {
		return err
	}
	b.report.cost = c
	return nil
}

// renewServers gives workers kube-apiservers that have served nobody before, and that nobody else asks.
func (b *bench) renewServers(ctx context.Context) error {
	if len(b.ways) > 0 {
		b.closeBalancers()
		for _, server := range b.running() {
			server.Kill()
		}
		if err := b.startServers(ctx); err != nil {
			return err
		}
	}
	return b.cluster.AdmitNodes(ctx)
}

func (b *bench) prepareWorkers() ([]*configuration.Configuration, error) {
	directory := filepath.Join(b.directory, "workers")
	if err := os.Mkdir(directory, 0o700); err != nil {
		return nil, err
	}
	configurations := make([]*configuration.Configuration, b.workers)
	var group errgroup.Group
	group.SetLimit(arriving)
	for i := range configurations {
		group.Go(func() error {
			var err error
			configurations[i], err = prepareWorker(b.cluster, directory, i, b.servers())
			return err
		})
	}
	return configurations, group.Wait()
}

// window lets time pass and tells what happened.
func (b *bench) window(ctx context.Context, workers *crowd) (window, error) {
	before, err := b.read(workers)
	if err != nil {
		return window{}, err
	}
	passing, cancel := context.WithTimeout(ctx, b.idle)
	defer cancel()
	var resident []int
	err = wait.PollUntilContextCancel(passing, time.Second, false, func(context.Context) (bool, error) {
		used, err := b.use()
		resident = append(resident, used.Resident)
		return false, err
	})
	if !wait.Interrupted(err) || ctx.Err() != nil {
		return window{}, err
	}
	after, err := b.read(workers)
	return between(before, after, resident), err
}

// read reads all that is counted.
func (b *bench) read(workers *crowd) (reading, error) {
	used, err := b.use()
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now(), cpu: used.CPU, totals: workers.totals()}
	r.network, err = readNetwork(isolation.Prefix)
	return r, err
}

// use is what the kube-apiservers use together.
func (b *bench) use() (daemon.Usage, error) {
	var sum daemon.Usage
	for _, server := range b.running() {
		used, err := server.Usage()
		if err != nil {
			return daemon.Usage{}, err
		}
		sum.CPU += used.CPU
		sum.Resident += used.Resident
	}
	return sum, nil
}

// addServer starts one more kube-apiserver, which puts itself on the list, and follows how workers learn it.
func (b *bench) addServer(ctx context.Context, workers *crowd) (change, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	added := b.cluster.Servers[servers]
	if err := added.Start(); err != nil {
		return change{}, err
	}
	var (
		before  uint64
		began   time.Time
		learnt  []time.Time
		changed change
	)
	err := wait.PollUntilContextCancel(ctx, spreading, true, func(context.Context) (bool, error) {
		now, discovery := time.Now(), workers.totals().discovery
		if learnt = workers.learnt(added.Address()); len(learnt) == 0 {
			began, before = now, discovery
		}
		return len(learnt) == len(workers.workers), nil
	})
	if err != nil {
		return change{}, fmt.Errorf("wait until all workers know %s; %d do: %w", added.Address(), len(learnt), err)
	}
	// What workers send upon it counts as well.
	<-time.After(lull)
	changed.discovery, changed.took, changed.known = workers.totals().discovery-before, time.Since(began), spread(learnt)
	return changed, nil
}
