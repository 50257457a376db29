// Package load is what the clients of a worker ask of an API: requests on new connections, requests on connections that
// are kept, and watches. It counts what failed and tells how long watches were away. All of it is client-go: what it
// puts right by itself is no failure.
package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Fresh and Persistent are the requests on new connections and on those that are kept.
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
	l := &Load{Fresh: &Requests{}, Persistent: &Requests{}, heart: heart, stop: stop}
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
	if err := l.startRequests(working, o); err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

func (l *Load) startRequests(ctx context.Context, o *Options) error {
	fresh, err := client(o.Fresh)
	if err != nil {
		return err
	}
	// Each kept connection has a request a second.
	kept := make([]kubernetes.Interface, o.Rate)
	for i := range kept {
		if kept[i], err = client(o.Kept); err != nil {
			return err
		}
	}
	l.running.Go(func() { l.Fresh.Run(ctx, o.Rate, func(int) kubernetes.Interface { return fresh }) })
	l.running.Go(func() {
		l.Persistent.Run(ctx, o.Rate, func(i int) kubernetes.Interface { return kept[i%len(kept)] })
	})
	return nil
}

func client(configuration func() (*rest.Config, error)) (kubernetes.Interface, error) {
	config, err := configuration()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Timeout = -1, Timeout
	return kubernetes.NewForConfig(config)
}

// Stop ends the load; requests under way are waited for.
func (l *Load) Stop() {
	l.stop()
	l.running.Wait()
}

// Requests are requests of one kind.
type Requests struct {
	lock     sync.Mutex
	attempts int
	failures []Failure
	// slowest request that was answered.
	slowest time.Duration
}

// Failure is a request that failed.
type Failure struct {
	// Began is when it was sent.
	Began Moment
	// Took is how long it took to fail.
	Took time.Duration
	Err  error
}

// Run sends requests at a rate, whether those before were answered or not, until the context ends; those under way are
// waited for.
func (r *Requests) Run(ctx context.Context, rate int, client func(i int) kubernetes.Interface) {
	var running sync.WaitGroup
	defer running.Wait()
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		running.Go(func() { r.send(context.WithoutCancel(ctx), client(i)) })
	}
}

func (r *Requests) send(ctx context.Context, client kubernetes.Interface) {
	began := Now()
	_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	took := began.Until(Now())
	r.lock.Lock()
	defer r.lock.Unlock()
	r.attempts++
	if err != nil {
		r.failures = append(r.failures, Failure{began, took, err})
		return
	}
	r.slowest = max(r.slowest, took)
}

// Attempts is the number of requests that were answered or failed.
func (r *Requests) Attempts() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.attempts
}

// Failures are the requests that failed and were sent between two moments.
func (r *Requests) Failures(from, to Moment) []Failure {
	r.lock.Lock()
	defer r.lock.Unlock()
	var found []Failure
	for _, f := range r.failures {
		if f.Began >= from && f.Began < to {
			found = append(found, f)
		}
	}
	return found
}

// Slowest is how long the slowest request took that was answered.
func (r *Requests) Slowest() time.Duration {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.slowest
}
