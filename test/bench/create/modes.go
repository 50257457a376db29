package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// measure runs the modes in turn.
func (b *bench) measure(ctx context.Context) error {
	for _, mode := range b.modes {
		var err error
		switch mode {
		case modeHA:
			err = b.compare(ctx, shape.HighlyAvailable)
		case modeSingle:
			err = b.compare(ctx, shape.Single)
		case modeMany:
			err = b.together(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) figure(name string, value float64, unit string) {
	b.figures = append(b.figures, figures.New(name, fmt.Sprintf("%.2f", value), unit))
}

func (b *bench) count(name string, value int, unit string) {
	b.figures = append(b.figures, figures.New(name, value, unit))
}

// compare creates tenants and floors of one shape in turn.
func (b *bench) compare(ctx context.Context, s shape.Shape) error {
	labels := b.apart
	if s.APIServers == 1 {
		labels = on(b.hosts[0])
	}
	var tenants, floors, deletions []*timeline.Timeline
	for run := 1; run <= b.runs; run++ {
		created, err := b.createAndDelete(ctx, s, fmt.Sprintf("%s-%d", s.Name, run), labels)
		if err != nil {
			return err
		}
		tenants, deletions = append(tenants, created.tenant.Timeline()), append(deletions, created.deleted)
		record, err := b.runFloor(ctx, s, run)
		if err != nil {
			return err
		}
		floors = append(floors, record)
	}
	fmt.Printf("\n%s: %d members in each etcd, %d apiservers, %d controller-managers, %d schedulers; from apply (floor: from the first process)\n\n",
		s.Name, s.EtcdMembers, s.APIServers, s.ControllerManagers, s.Schedulers)
	columns := []timeline.Column{{Heading: "tenant", Runs: tenants}, {Heading: "floor", Runs: floors}}
	if err := errors.Join(timeline.Print(os.Stdout, shape.Rows(), columns...), drawPicture(s, columns)); err != nil {
		return err
	}
	fmt.Printf("\n%s: from the deletion of the Cluster\n\n", s.Name)
	if err := timeline.Print(os.Stdout, tenant.DeleteRows(), timeline.Column{Heading: "delete", Runs: deletions}); err != nil {
		return err
	}
	created, floor := median(tenants, shape.Done), median(floors, shape.Done)
	ratio := created.Seconds() / floor.Seconds()
	fmt.Printf("\n%s: median %.2f s, floor %.2f s, ratio %.2f\n", s.Name, created.Seconds(), floor.Seconds(), ratio)
	if s == shape.HighlyAvailable {
		b.figure("create_ha_seconds", created.Seconds(), "s")
		b.figure("create_ha_floor_seconds", floor.Seconds(), "s")
		b.figure("create_ratio", ratio, "ratio")
		b.figure("delete_seconds", median(deletions, tenant.AllGone).Seconds(), "s")
	} else {
		b.figure("create_single_ratio", ratio, "ratio")
	}
	return nil
}

// drawPicture writes where the time of a creation goes to out/pictures.
func drawPicture(s shape.Shape, columns []timeline.Column) error {
	const folder = "out/pictures"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make a folder for pictures: %w", err)
	}
	var drawn bytes.Buffer
	if err := timeline.Draw(&drawn, "Where the time of a creation goes: "+s.Name, shape.Lanes(), columns...); err != nil {
		return err
	}
	path := filepath.Join(folder, "create-"+s.Name+".svg")
	if err := os.WriteFile(path, drawn.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write a picture: %w", err)
	}
	fmt.Printf("\n%s: a picture of it is in %s\n", s.Name, path)
	return nil
}

func median(runs []*timeline.Timeline, stage timeline.Stage) time.Duration {
	times := make([]time.Duration, 0, len(runs))
	for _, run := range runs {
		times = append(times, run.Times(stage, "")...)
	}
	return timeline.Median(times)
}

// together applies many single tenants at once.
func (b *bench) together(ctx context.Context) error {
	fmt.Printf("\n%d single tenants applied together\n", b.many)
	before, err := b.settle(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	began := time.Now()
	tenants := make([]*tenant.Tenant, b.many)
	group, groupContext := errgroup.WithContext(limited)
	for i := range tenants {
		group.Go(func() (err error) {
			tenants[i], err = b.watcher.Create(groupContext, b.manyKey(i), shape.Single, b.version, on(b.hosts[i%len(b.hosts)]))
			return err
		})
	}
	err = group.Wait()
	took := time.Since(began)
	b.printUse(before)
	records := make([]*timeline.Timeline, 0, len(tenants))
	for _, t := range tenants {
		records = append(records, t.Timeline())
		b.tellTrouble(t)
	}
	fmt.Printf("\n%d single tenants: over all tenants, from their apply\n\n", b.many)
	if err := errors.Join(err, timeline.PrintSpread(os.Stdout, shape.Rows(), records)); err != nil {
		return err
	}
	printWaits(tenants)
	fmt.Printf("\n%d tenants usable after %.2f s\n", b.many, took.Seconds())
	b.figure(fmt.Sprintf("create_%d_seconds", b.many), took.Seconds(), "s")
	return b.deleteTogether(limited)
}

func (b *bench) manyKey(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("many-%d", i+1)}
}

// printWaits tells what the tenants said that they wait for.
func printWaits(tenants []*tenant.Tenant) {
	const most = 12
	fmt.Printf("\nwhat the tenants said that they wait for, added up over all tenants\n\n")
	for i, w := range tenant.Waits(tenants) {
		if i == most {
			break
		}
		fmt.Printf("%8.1f s  %s\n", w.Time.Seconds(), w.For)
	}
}

func (b *bench) deleteTogether(ctx context.Context) error {
	deletions := make([]*timeline.Timeline, b.many)
	group, ctx := errgroup.WithContext(ctx)
	for i := range deletions {
		group.Go(func() (err error) {
			deletions[i], err = b.watcher.Delete(ctx, b.manyKey(i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("\ndeleted together\n\n")
	var last time.Duration
	for _, deletion := range deletions {
		last = max(last, slices.Max(deletion.Times(tenant.AllGone, "")))
	}
	b.figure(fmt.Sprintf("delete_%d_seconds", b.many), last.Seconds(), "s")
	return timeline.PrintSpread(os.Stdout, tenant.DeleteRows(), deletions)
}
