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

// seen counts what became of the requests of one way.
type seen struct {
	// fresh and kept are requests that failed, cut are those of both that the kube-apiserver had when it failed.
	fresh, kept, cut int
	raw              load.Raw
}

// count counts what became of all requests. The load has ended; graceful is a fault that cuts nothing.
func (o *outcome) count(fault load.Fault, graceful bool) seen {
	var faults []load.Fault
	if !graceful {
		fault.Left = fault.Began.Add(o.away)
		faults = append(faults, fault)
	}
	fresh, freshCut := load.Split(o.load.Fresh.Failures(0, load.Forever), faults...)
	kept, keptCut := load.Split(o.load.Persistent.Failures(0, load.Forever), faults...)
	raw := o.load.Fresh.Raw(0, load.Forever).Plus(o.load.Persistent.Raw(0, load.Forever))
	return seen{len(fresh), len(kept), len(freshCut) + len(keptCut), raw}
}

// faults measures what clients see of each fault of one kube-apiserver. All load balancers meet the same fault together: a
// graceful end alone takes more than a minute.
func (b *bench) faults(ctx context.Context) error {
	for i, f := range allFaults() {
		fmt.Println(" ", f.name)
		outcomes, fault, err := b.fault(ctx, f, b.cluster.Servers[i%servers], b.cluster.Servers[(i+1)%servers])
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		for _, line := range []struct {
			title string
			count func(seen) int
		}{
			{"failed requests on new connections", func(s seen) int { return s.fresh }},
			{"failed requests on kept connections", func(s seen) int { return s.kept }},
			{"requests that were cut", func(s seen) int { return s.cut }},
			{"raw answers 429", func(s seen) int { return s.raw.TooMany }},
			{"raw answers 5xx", func(s seen) int { return s.raw.ServerErrors }},
			{"raw broken connections", func(s seen) int { return s.raw.Broken }},
		} {
			values := map[*way]float64{}
			for w, o := range outcomes {
				values[w] = float64(line.count(o.count(fault, f.graceful)))
			}
			b.report.add(f.name+": "+line.title, "", rowOther, b.ways, values)
		}
		away := map[*way]float64{}
		for w, o := range outcomes {
			away[w] = o.away.Seconds()
		}
		b.report.add(f.name+": watches away", "s", rowOther, b.ways, away)
	}
	return nil
}

// fault has one kube-apiserver fail under load, and mends it. The other one has the watched object changed. The load has
// ended when it returns.
func (b *bench) fault(ctx context.Context, f fault, server, other *apiservers.Server) (outcomes map[*way]*outcome, struck load.Fault, err error) {
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
			return outcomes, struck, err
		}
		l, err := b.load(ctx, w, other)
		if err != nil {
			return outcomes, struck, err
		}
		outcomes[w] = &outcome{load: l}
	}
	<-time.After(lull)
	limited, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	struck.Began = load.Now()
	if err := f.fail(limited, server); err != nil {
		return outcomes, struck, err
	}
	struck.Done = load.Now()
	gone := struck.Began
	if f.graceful {
		gone = struck.Done
	}
	waitForAll(limited, outcomes, gone)
	if err := f.mend(server); err != nil {
		return outcomes, struck, err
	}
	if err := server.Ready(limited); err != nil {
		return outcomes, struck, err
	}
	return outcomes, struck, b.cluster.Listed(limited, b.running()...)
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
