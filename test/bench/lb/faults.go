package main

import (
	"context"
	"fmt"
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
			mend: (*apiservers.Server).Start,
		},
	}
}

// outcome is what clients saw of a fault.
type outcome struct {
	fresh, persistent, away float64
}

// faults measures what clients see of each fault of one kube-apiserver.
func (b *bench) faults(ctx context.Context) error {
	outcomes := map[string]map[*way]*outcome{}
	for i, f := range allFaults() {
		outcomes[f.name] = map[*way]*outcome{}
		for _, w := range b.ways {
			if w.balancer == nil {
				continue
			}
			seen, err := b.fault(ctx, w, f, i)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", w.name, f.name, err)
			}
			outcomes[f.name][w] = seen
		}
		column := func(of func(*outcome) float64) map[*way]float64 {
			values := map[*way]float64{}
			for w, seen := range outcomes[f.name] {
				values[w] = of(seen)
			}
			return values
		}
		b.report.add(f.name+": failed requests on new connections", "", rowOther, b.ways, column(func(o *outcome) float64 { return o.fresh }))
		b.report.add(f.name+": failed requests on kept connections", "", rowOther, b.ways, column(func(o *outcome) float64 { return o.persistent }))
		b.report.add(f.name+": watches away", "s", rowOther, b.ways, column(func(o *outcome) float64 { return o.away }))
	}
	return nil
}

// fault has one kube-apiserver fail under load, and mends it.
func (b *bench) fault(ctx context.Context, w *way, f fault, i int) (*outcome, error) {
	if err := b.restart(ctx, w); err != nil {
		return nil, err
	}
	server, other := b.cluster.Servers[i%servers], b.cluster.Servers[(i+1)%servers]
	l, err := b.load(ctx, w, other)
	if err != nil {
		return nil, err
	}
	defer l.Stop()
	<-time.After(lull)
	began := load.Now()
	failing, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := f.fail(failing, server); err != nil {
		return nil, err
	}
	gone := began
	if f.name == "SIGTERM" {
		gone = load.Now()
	}
	waiting, cancelWaiting := context.WithTimeout(ctx, faultLimit)
	defer cancelWaiting()
	// Watches that do not come back were away as long as they were waited for.
	away, _ := l.Back(waiting, gone)
	if err := f.mend(server); err != nil {
		return nil, err
	}
	if err := server.Ready(failing); err != nil {
		return nil, err
	}
	if err := b.cluster.Listed(failing, b.cluster.Servers...); err != nil {
		return nil, err
	}
	l.Stop()
	return &outcome{
		fresh:      float64(len(l.Fresh.Failures(began, load.Forever))),
		persistent: float64(len(l.Persistent.Failures(began, load.Forever))),
		away:       away.Seconds(),
	}, ctx.Err()
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
