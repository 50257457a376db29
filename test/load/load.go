// Package load is what the clients of a worker ask of an API: requests on new connections, requests on connections that
// are kept, and watches. Half of the requests are writes. It counts what failed and tells how long watches were away.
//
// A failed request is one for which client-go, with its built-in handling of Retry-After and no other retry, returns an
// error. That handling sends a read again whose connection broke, a write never. What client-go put right by itself is
// counted apart, as raw errors.
package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Timeout is a client's own limit for a request.
const Timeout = 10 * time.Second

// Options say how much is asked of whom.
type Options struct {
	// Kept makes a client configuration for what is tested, each with a connection of its own. Fresh makes one whose
	// every request has a new connection.
	Kept, Fresh func() (*rest.Config, error)
	// Rate is the number of requests a second on new connections, and also on kept ones.
	Rate int
	// Watches is the number of watches, each on a connection of its own.
	Watches int
	// Writers are client configurations for each API server itself, by their addresses. One of them, Writer to begin
	// with, has the watched object changed.
	Writers map[string]*rest.Config
	Writer  string
}

// Load is load that runs.
type Load struct {
	// Fresh and Persistent are the requests on new connections and on those that are kept; every second one is a write.
	Fresh, Persistent *Requests

	heart   *heart
	watches []*watcher
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Start starts load. It returns when every watch brought an event.
func Start(ctx context.Context, o *Options) (*Load, error) {
	heart, err := newHeart(ctx, o.Writers, o.Writer)
	if err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Load{Fresh: &Requests{}, Persistent: &Requests{kept: true}, heart: heart, stop: stop}
	l.running.Go(func() { heart.run(working) })
	began := Now()
	for range o.Watches {
		w, err := newWatcher(o.Kept)
		if err != nil {
			l.Stop()
			return nil, err
		}
		l.watches = append(l.watches, w)
		l.running.Go(func() { w.run(working) })
	}
	if _, err := l.Back(ctx, began); err != nil {
		l.Stop()
		return nil, fmt.Errorf("start watches: %w", err)
	}
	if err := l.startRequests(ctx, working, o); err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

// startRequests makes what is written to within starting, and sends requests until working ends.
func (l *Load) startRequests(starting, working context.Context, o *Options) error {
	for _, r := range []*Requests{l.Fresh, l.Persistent} {
		var err error
		if r.own, err = ownObjects(starting, l.heart.writer(), o.Rate); err != nil {
			return err
		}
	}
	fresh, err := client(o.Fresh, l.Fresh)
	if err != nil {
		return err
	}
	// Each kept connection has a request a second.
	kept := make([]kubernetes.Interface, o.Rate)
	for i := range kept {
		if kept[i], err = client(o.Kept, l.Persistent); err != nil {
			return err
		}
	}
	l.running.Go(func() { l.Fresh.Run(working, o.Rate, func(int) kubernetes.Interface { return fresh }) })
	l.running.Go(func() {
		l.Persistent.Run(working, o.Rate, func(i int) kubernetes.Interface { return kept[i%len(kept)] })
	})
	return nil
}

// client has what comes over the wire counted as that of requests.
func client(configuration func() (*rest.Config, error), requests *Requests) (kubernetes.Interface, error) {
	config, err := configuration()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Timeout = -1, Timeout
	config.Wrap(requests.counting)
	return kubernetes.NewForConfig(config)
}

// Stop ends the load; requests under way are waited for.
func (l *Load) Stop() {
	l.stop()
	l.running.Wait()
}
