package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// small is a small object that every cluster has.
	small = "/api/v1/namespaces/default"
	// connecting is how many clients open new connections at the same time.
	connecting = 8
)

// get sends one request and reads the answer.
func (c *client) get(ctx context.Context, path string) (bytes int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	request.Header.Set("Accept-Encoding", "identity")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	bytes, err = io.Copy(io.Discard, response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	return bytes, err
}

// result is what came of one turn.
type result struct {
	// latencies are sorted.
	latencies []time.Duration
	took, cpu time.Duration
	bytes     int64
}

func (r *result) rate() float64 { return float64(len(r.latencies)) / r.took.Seconds() }

// cpuFor is the load balancer's processor time for a number of requests, in seconds.
func (r *result) cpuFor(requests int) float64 {
	return r.cpu.Seconds() * float64(requests) / float64(len(r.latencies))
}

func (r *result) quantile(q float64) time.Duration {
	return quantile(r.latencies, q)
}

// quantile is that of sorted times.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// ask has clients send requests, each one at a time, for the length of a turn.
func (b *bench) ask(ctx context.Context, w *way, clients []*client, path string) (*result, error) {
	// Kept connections are opened before.
	warm, warming := errgroup.WithContext(ctx)
	for _, c := range clients {
		warm.Go(func() error { _, err := c.get(warming, path); return err })
	}
	if err := warm.Wait(); err != nil {
		return nil, err
	}
	before, err := w.usage()
	if err != nil {
		return nil, err
	}
	r := &result{}
	var lock sync.Mutex
	began := time.Now()
	group, asking := errgroup.WithContext(ctx)
	for _, c := range clients {
		group.Go(func() error {
			latencies := make([]time.Duration, 0, 1<<12)
			total := int64(0)
			for time.Since(began) < b.duration {
				sent := time.Now()
				bytes, err := c.get(asking, path)
				if err != nil {
					return err
				}
				latencies, total = append(latencies, time.Since(sent)), total+bytes
			}
			lock.Lock()
			defer lock.Unlock()
			r.latencies, r.bytes = append(r.latencies, latencies...), r.bytes+total
			return nil
		})
	}
	err = group.Wait()
	r.took = time.Since(began)
	if err != nil {
		return nil, err
	}
	for _, c := range clients {
		c.http.CloseIdleConnections()
	}
	after, err := w.usage()
	r.cpu = after.CPU - before.CPU
	slices.Sort(r.latencies)
	return r, err
}

// clients makes a number of clients. A way with several addresses has them in turn, beginning with another every round.
func (b *bench) clients(w *way, round, count int, fresh bool) ([]*client, error) {
	clients := make([]*client, count)
	for i := range clients {
		var err error
		if clients[i], err = b.client(w, round+i, fresh); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// requests measures small requests on kept connections.
func (b *bench) requests(ctx context.Context) error {
	for _, count := range b.connections {
		results := results{}
		err := b.turns(ctx, func(w *way, round int) error {
			clients, err := b.clients(w, round, count, false)
			if err != nil {
				return err
			}
			r, err := b.ask(ctx, w, clients, small)
			results.add(w, r)
			return err
		})
		if err != nil {
			return err
		}
		at := func(title string) string { return fmt.Sprintf("%s, %d connections", title, count) }
		b.report.add(at("p50"), "ms", rowP50, b.ways, results.median(func(r *result) float64 { return milliseconds(r.quantile(0.5)) }))
		b.report.add(at("p99"), "ms", rowOther, b.ways, results.median(func(r *result) float64 { return milliseconds(r.quantile(0.99)) }))
		b.report.add(at("requests"), "/s", rowRate, b.ways, results.median((*result).rate))
		b.report.add(at("CPU for 10,000 requests"), "s", rowCPU, b.ways, results.median(func(r *result) float64 { return r.cpuFor(10_000) }))
	}
	return nil
}

// newConnections measures requests that each have a new connection.
func (b *bench) newConnections(ctx context.Context) error {
	results := results{}
	err := b.turns(ctx, func(w *way, round int) error {
		clients, err := b.clients(w, round, connecting, true)
		if err != nil {
			return err
		}
		r, err := b.ask(ctx, w, clients, small)
		results.add(w, r)
		return err
	})
	if err != nil {
		return err
	}
	b.report.add("new connections", "/s", rowOther, b.ways, results.median((*result).rate))
	b.report.add("new connection and a request, p99", "ms", rowOther, b.ways, results.median(func(r *result) float64 { return milliseconds(r.quantile(0.99)) }))
	b.report.add("CPU for 1,000 new connections", "s", rowOther, b.ways, results.median(func(r *result) float64 { return r.cpuFor(1000) }))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
