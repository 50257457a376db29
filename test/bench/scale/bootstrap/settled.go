package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
)

// idleSince waits until the manager has nothing to do for a while, and returns since when: it watches the tenants of so many Clusters and has
// looked at so many Machines, no reconcile waits, and nothing was written.
func (b *bench) idleSince(ctx context.Context, when string, clusters, machines int) (since time.Time, err error) {
	last, told := -1.0, time.Now()
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		now, err := b.manager.Counts(ctx)
		if err != nil {
			return false, err
		}
		watched := b.watched()
		if now.Waiting > idleWaiting || now.Written() != last || watched < clusters || now.By[ofConfigs] < float64(machines) {
			since, last = time.Time{}, now.Written()
		} else if since.IsZero() {
			since = time.Now()
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			fmt.Printf("  %s: %.0f wait, %.0f reconciles, %.0f errors, %.0f writes, %d of %d tenants are watched\n", when, now.Waiting, now.Reconciles, now.Errors, now.Written(), watched, clusters)
		}
		return !since.IsZero() && time.Since(since) >= quiet, nil
	})
	if err != nil {
		err = fmt.Errorf("wait for the manager to be idle %s: %w", when, err)
	}
	return since, err
}

// watched is how many tenants the manager watches.
func (b *bench) watched() int {
	count := 0
	for i := range b.tenants {
		if b.tenants[i].api != nil && b.tenants[i].api.Watched() {
			count++
		}
	}
	return count
}

// rests measures a while in which nothing happens.
func (b *bench) rests(ctx context.Context) error {
	before, err := b.state(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("at rest for %s\n", b.rest)
	profiled := make(chan error, 1)
	go func() {
		profiled <- b.manager.Profile(ctx, b.profiles, "cpu-rest", fmt.Sprintf("profile?seconds=%d", int(b.rest.Seconds())-5))
	}()
	select {
	case <-time.After(b.rest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := b.manager.Collect(ctx); err != nil {
		return err
	}
	after, err := b.state(ctx)
	if err != nil {
		return err
	}
	b.found.atRest = after.Since(before)
	b.found.atRest.Number, b.found.atRest.Took = b.clusters, b.rest
	_, open := b.apis.Connections()
	b.found.open = float64(open)
	fmt.Printf("%s\n  %s\n  %s\n  connections to tenants: %d\n", line("Cluster", b.found.atRest), b.found.atRest.WritesByKind(), b.found.atRest.ByController(), open)
	return <-profiled
}

// again stops the manager and starts it anew.
func (b *bench) again(ctx context.Context) error {
	if err := b.manager.Stop(ctx); err != nil {
		return err
	}
	m, err := manager.Start(ctx, &b.stage, b.program(b.stage.Folder))
	if err != nil {
		return err
	}
	b.manager = m
	return nil
}

// restarted waits until a manager that was started anew is idle.
func (b *bench) restarted(ctx context.Context) error {
	idle, err := b.idleSince(ctx, "after the restart", b.clusters, b.machines)
	if err != nil {
		return err
	}
	after, err := b.state(ctx)
	if err != nil {
		return err
	}
	b.found.restart = manager.Cost{State: after, Number: b.machines, Took: idle.Sub(b.manager.Started)}
	fmt.Printf("idle %s after the restart\n%s\n  %s\n  %s\n", b.found.restart.Took.Round(time.Millisecond), line("Machine", b.found.restart), b.found.restart.WritesByKind(), b.found.restart.ByController())
	return nil
}
