package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
)

// watched is a watch that brings nothing.
const watched = "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Dnone"

// manyWatches measures what open watches cost a load balancer, each on a connection of its own.
func (b *bench) manyWatches(ctx context.Context) error {
	kib, descriptors, resident := map[*way]float64{}, map[*way]float64{}, map[*way]float64{}
	for _, w := range b.ways {
		if w.balancer == nil {
			continue
		}
		before, after, err := b.openWatches(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		kib[w] = float64(after.Resident-before.Resident) / 1024 / float64(b.watches)
		descriptors[w] = float64(after.Descriptors-before.Descriptors) / float64(b.watches)
		resident[w] = float64(after.Resident) / mebibyte
	}
	with := fmt.Sprintf("with %d watches", b.watches)
	b.report.add("memory for a connection, "+with, "KiB", rowOther, b.ways, kib).figure = "lb_kib_per_connection"
	b.report.add("descriptors for a connection, "+with, "", rowOther, b.ways, descriptors).figure = "lb_descriptors_per_connection"
	b.report.add("resident memory "+with, "MiB", rowOther, b.ways, resident).figure = fmt.Sprintf("lb_mib_%d_watches", b.watches)
	return nil
}

// openWatches reads a load balancer's usage before and after watches are open.
func (b *bench) openWatches(ctx context.Context, w *way) (before, after daemon.Usage, err error) {
	if err := b.restart(ctx, w); err != nil {
		return before, after, err
	}
	if before, err = w.usage(); err != nil {
		return before, after, err
	}
	watching, stop := context.WithCancel(ctx)
	var open []io.Closer
	defer func() {
		stop()
		for _, body := range open {
			_ = body.Close()
		}
	}()
	var lock sync.Mutex
	var group errgroup.Group
	group.SetLimit(connecting)
	for i := range b.watches {
		group.Go(func() error {
			body, err := b.watch(watching, w, i)
			lock.Lock()
			defer lock.Unlock()
			if err == nil {
				open = append(open, body)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return before, after, errors.Join(err, ctx.Err())
	}
	after, err = w.usage()
	return before, after, err
}

// watch opens a watch.
func (b *bench) watch(ctx context.Context, w *way, i int) (io.Closer, error) {
	c, err := b.client(w, i, false)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+watched, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("a watch answers %s", response.Status), response.Body.Close())
	}
	return response.Body, nil
}
