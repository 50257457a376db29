package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// listed ConfigMaps of so many bytes make a list of about 10 MiB.
	listed     = 500
	listedSize = 20 << 10
	large      = "/api/v1/namespaces/default/configmaps?resourceVersion=0"
	mebibyte   = 1 << 20
)

// list measures a large list, which comes from the watch cache.
func (b *bench) list(ctx context.Context) error {
	if err := b.fill(ctx); err != nil {
		return err
	}
	results := results{}
	err := b.turns(ctx, func(w *way, round int) error {
		clients, err := b.clients(w, round, 1, false)
		if err != nil {
			return err
		}
		r, err := b.ask(ctx, w, clients, large)
		results.add(w, r)
		return err
	})
	if err != nil {
		return err
	}
	b.report.add("list of 10 MiB, p50", "ms", rowOther, b.ways, results.median(func(r *result) float64 { return milliseconds(r.quantile(0.5)) }))
	b.report.add("lists", "MiB/s", rowOther, b.ways, results.median(func(r *result) float64 { return float64(r.bytes) / mebibyte / r.took.Seconds() }))
	b.report.add("CPU for 1 GiB of lists", "s", rowOther, b.ways, results.median(func(r *result) float64 {
		return r.cpu.Seconds() * 1024 * mebibyte / float64(r.bytes)
	}))
	return nil
}

// fill makes what is listed.
func (b *bench) fill(ctx context.Context) error {
	config, err := b.cluster.Config(b.servers()[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	content := &strings.Builder{}
	for content.Len() < listedSize {
		fmt.Fprintf(content, "%016x", rand.Uint64())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range listed {
		group.Go(func() error {
			_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("listed-%d", i)},
				Data:       map[string]string{"content": content.String()},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}
