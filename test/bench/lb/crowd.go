package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	loadbalancer "github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
)

const (
	// mostWorkers have all their descriptors in one process.
	mostWorkers = 2000
	// arriving is how many workers connect at the same time.
	arriving = 16
	// crowdInterval is how often a worker is looked at while it connects.
	crowdInterval = 100 * time.Millisecond
)

// crowd is the load balancers of many workers: each is the program that a worker runs, in this process, with an address
// of loopback and the certificate of a node of its own.
type crowd struct {
	workers []*loadbalancer.Program
	stop    context.CancelFunc
	running *errgroup.Group
}

// totals are what all load balancers of a crowd count together.
type totals struct {
	probes uint64
	// probing and discovery are bytes sent and received for probes and to learn where the API servers are.
	probing, discovery uint64
}

// workerAddress is where the i-th worker's load balancer listens.
func workerAddress(i int, port uint16) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}), port).String()
}

// prepareWorker makes the files of the i-th worker and its configuration. Its list of API servers is not kept: many
// workers have as many disks, and here there is one.
func prepareWorker(cluster *apiservers.Cluster, directory string, i int, seeds []string) (*configuration.Configuration, error) {
	node := fmt.Sprintf("worker-%d", i)
	directory = filepath.Join(directory, node)
	if err := os.Mkdir(directory, 0o700); err != nil {
		return nil, err
	}
	kubeconfig, err := cluster.NodeKubeconfig(directory, node)
	if err != nil {
		return nil, err
	}
	content, err := yaml.Marshal(map[string]any{
		"listenAddress": workerAddress(i, 6443), "statusAddress": workerAddress(i, 6444), "seedBackends": seeds,
		"certificateAuthorityFile": filepath.Join(directory, "ca.crt"), "kubeconfigFile": kubeconfig,
	})
	if err != nil {
		return nil, err
	}
	return configuration.Parse(content)
}

// startCrowd starts load balancers and returns when each knows the API servers, which are its seeds, as ready.
func startCrowd(ctx context.Context, configurations []*configuration.Configuration) (*crowd, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &crowd{workers: make([]*loadbalancer.Program, len(configurations)), stop: stop, running: &errgroup.Group{}}
	connecting, ctx := errgroup.WithContext(ctx)
	connecting.SetLimit(arriving)
	for i, config := range configurations {
		connecting.Go(func() error {
			worker, err := loadbalancer.New(config, logr.Discard())
			if err != nil {
				return err
			}
			c.workers[i] = worker
			c.running.Go(func() error { return worker.Run(running) })
			err = wait.PollUntilContextCancel(ctx, crowdInterval, false, func(context.Context) (bool, error) {
				return balancers.Known(worker.Report(), config.SeedBackends), nil
			})
			if err != nil {
				return fmt.Errorf("wait until the load balancer of worker %d knows %v as ready; it says %+v: %w", i, config.SeedBackends, worker.Report().Backends, err)
			}
			return nil
		})
	}
	if err := connecting.Wait(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// close ends all.
func (c *crowd) close() error {
	c.stop()
	return c.running.Wait()
}

// totals asks all load balancers what they counted.
func (c *crowd) totals() totals {
	var sum totals
	for _, worker := range c.workers {
		report := worker.Report()
		sum.probes += report.Counters.Probes
		sum.probing += report.Counters.ProbeBytesSent + report.Counters.ProbeBytesReceived
		sum.discovery += report.Discovery.BytesSent + report.Discovery.BytesReceived
	}
	return sum
}

// learnt is when each load balancer that has the API server at address on its list changed that list last.
func (c *crowd) learnt(address string) []time.Time {
	var learnt []time.Time
	for _, worker := range c.workers {
		report := worker.Report()
		for _, backend := range report.Backends {
			if backend.Address == address && backend.Listed {
				learnt = append(learnt, report.Discovery.Changed)
			}
		}
	}
	return learnt
}
