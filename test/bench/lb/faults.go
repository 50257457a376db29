package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// faultRate is the number of requests a second of each kind, faultWatches that of watches.
	faultRate    = 20
	faultWatches = 50
	// faultLimit is how long watches are waited for.
	faultLimit = time.Minute
	// lull is how long load runs before a fault.
	lull = 2 * time.Second
)

// fault is a way in which a kube-apiserver fails.
type fault struct {
	name string
	// fail returns when watches may be expected elsewhere; mend brings the kube-apiserver back.
	fail func(context.Context, *apiservers.Server) error
	mend func(*apiservers.Server) error
	// graceful is a fault that watches need not see before fail returns.
	graceful bool
}

func allFaults() []fault {
	return []fault{
		{
			name: "kill -9",
			fail: func(_ context.Context, s *apiservers.Server) error { s.Kill(); return nil },
			mend: (*apiservers.Server).Start,
		},
		{
			name: "SIGSTOP",
			fail: func(_ context.Context, s *apiservers.Server) error { return s.Suspend() },
			mend: (*apiservers.Server).Resume,
		},
		{
			name: "SIGTERM",
			fail: func(ctx context.Context, s *apiservers.Server) error {
				if err := s.Terminate(); err != nil {
					return err
				}
				return s.Ended(ctx)
			},
			mend:     (*apiservers.Server).Start,
			graceful: true,
		},
	}
}

// outcome is what clients of one way saw of a fault.
type outcome struct {
	load *load.Load
	away time.Duration
}

// faults measures what clients see of each fault of one kube-apiserver. All load balancers meet the same fault together: a
// graceful end alone takes more than a minute.
func (b *bench) faults(ctx context.Context) error {
	for i, f := range allFaults() {
		fmt.Println(" ", f.name)
		outcomes, began, err := b.fault(ctx, f, b.cluster.Servers[i%servers], b.cluster.Servers[(i+1)%servers])
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		column := func(of func(*outcome) float64) map[*way]float64 {
			values := map[*way]float64{}
			for w, seen := range outcomes {
				values[w] = of(seen)
			}
			return values
		}
		failed := func(requests *load.Requests) float64 { return float64(len(requests.Failures(began, load.Forever))) }
		b.report.add(f.name+": failed requests on new connections", "", rowOther, b.ways, column(func(o *outcome) float64 { return failed(o.load.Fresh) }))
		b.report.add(f.name+": failed requests on kept connections", "", rowOther, b.ways, column(func(o *outcome) float64 { return failed(o.load.Persistent) }))
		b.report.add(f.name+": watches away", "s", rowOther, b.ways, column(func(o *outcome) float64 { return o.away.Seconds() }))
	}
	return nil
}

// fault has one kube-apiserver fail under load, and mends it. The other one has the watched object changed.
func (b *bench) fault(ctx context.Context, f fault, server, other *apiservers.Server) (outcomes map[*way]*outcome, began load.Moment, err error) {
	outcomes = map[*way]*outcome{}
	defer func() {
		for _, o := range outcomes {
			o.load.Stop()
		}
	}()
	for _, w := range b.ways {
		if w.balancer == nil {
			continue
		}
		if err := b.restart(ctx, w); err != nil {
			return outcomes, 0, err
		}
		l, err := b.load(ctx, w, other)
		if err != nil {
			return outcomes, 0, err
		}
		outcomes[w] = &outcome{load: l}
	}
	<-time.After(lull)
	limited, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	began = load.Now()
	if err := f.fail(limited, server); err != nil {
		return outcomes, began, err
	}
	gone := began
	if f.graceful {
		gone = load.Now()
	}
	waitForAll(limited, outcomes, gone)
	if err := f.mend(server); err != nil {
		return outcomes, began, err
	}
	if err := server.Ready(limited); err != nil {
		return outcomes, began, err
	}
	return outcomes, began, b.cluster.Listed(limited, b.running()...)
}

// waitForAll waits until all watches are back, or as long as they are waited for: then they were away for that long.
func waitForAll(ctx context.Context, outcomes map[*way]*outcome, gone load.Moment) {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	var waiting sync.WaitGroup
	for _, o := range outcomes {
		waiting.Go(func() { o.away, _ = o.load.Back(ctx, gone) })
	}
	waiting.Wait()
}

func (b *bench) load(ctx context.Context, w *way, writer *apiservers.Server) (*load.Load, error) {
	config, err := b.cluster.Config(writer.Address())
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return load.Start(starting, &load.Options{
		Kept:  func() (*rest.Config, error) { return b.cluster.Config(w.addresses[0]) },
		Fresh: func() (*rest.Config, error) { return b.cluster.FreshConfig(w.addresses[0]) },
		Rate:  faultRate, Watches: faultWatches,
		Writers: map[string]*rest.Config{writer.Address(): config}, Writer: writer.Address(),
	})
}
