package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/scale/standin"
)

const (
	provider         = "bootstrap"
	managerNamespace = "kok-bootstrap-system"
	// appliers is how many objects are made at once, joiners is how many machines join at once.
	appliers = 16
	joiners  = 64
	// limit bounds each wait; a benchmark that exceeds it has failed.
	limit = 2 * time.Hour
	// quiet is for how long nothing may happen before the manager counts as idle.
	quiet = 5 * time.Second
	// idleWaiting is how many objects of settled Clusters may be looked at at any time.
	idleWaiting = 2
)

// bench is a benchmark that runs.
type bench struct {
	*options
	stage     manager.Stage
	apis      *standin.Tenants
	authority *authority
	tenants   []tenant
	progress  progress
	version   string
	manager   *manager.Process
	found     results
}

func run(ctx context.Context, o *options) (err error) {
	b := &bench{options: o, tenants: make([]tenant, o.clusters), version: versions.BuiltIn().Newest().Minor + ".0"}
	b.stage = manager.Stage{Provider: provider, Namespace: managerNamespace, Kinds: []string{provider, "controlplane", "infrastructure"}}
	b.found.clusters, b.found.machines = o.clusters, o.machines
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() { err = errors.Join(err, b.stage.Stop()) }()
	defer cancel()
	fmt.Println("start etcd and kube-apiserver")
	if err := b.stage.Start(ctx, func(*envtest.APIServer) {}); err != nil {
		return err
	}
	if b.authority, err = newAuthority(); err != nil {
		return err
	}
	if b.apis, err = standin.NewTenants(b.stage.Config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.apis.Stop()) }()
	if err := b.progress.follow(ctx, b.stage.Config); err != nil {
		return err
	}
	if b.manager, err = manager.Start(ctx, &b.stage, o.program(b.stage.Folder)); err != nil {
		return err
	}
	defer func() { b.manager.Kill() }()
	for _, step := range []func(context.Context) error{b.connect, b.makeMachines, b.rests} {
		if err := b.manager.While(ctx, step); err != nil {
			return err
		}
	}
	if err := b.again(ctx); err != nil {
		return err
	}
	if err := b.manager.While(ctx, b.restarted); err != nil {
		return err
	}
	return b.found.report()
}

// connect makes all Clusters, and waits until the manager has its connections to their tenants.
func (b *bench) connect(ctx context.Context) error {
	if _, err := b.idleSince(ctx, "before the first Cluster", 0, 0); err != nil {
		return err
	}
	if err := b.manager.Collect(ctx); err != nil {
		return err
	}
	before, err := b.state(ctx)
	if err != nil {
		return err
	}
	b.found.empty, b.found.emptyHeap = before.Usage, before.Heap
	began := time.Now()
	if err := each(ctx, appliers, 0, b.clusters, b.makeCluster); err != nil {
		return err
	}
	idle, err := b.idleSince(ctx, "with all Clusters", b.clusters, 0)
	if err != nil {
		return err
	}
	if err := b.manager.Collect(ctx); err != nil {
		return err
	}
	after, err := b.state(ctx)
	if err != nil {
		return err
	}
	b.found.connected = after.Since(before)
	b.found.connected.Number, b.found.connected.Took = b.clusters, idle.Sub(began)
	fmt.Println(line("Cluster", b.found.connected))
	return b.manager.Profile(ctx, b.profiles, "heap-clusters", "heap?gc=1")
}

// each does something for each number, some at once.
func each(ctx context.Context, atOnce, from, to int, do func(context.Context, int) error) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i := from; i < to; i++ {
		work.Go(func() error { return do(ctx, i) })
	}
	return work.Wait()
}

// makeMachines makes the Machines in two waves.
func (b *bench) makeMachines(ctx context.Context) (err error) {
	if b.found.first, err = b.wave(ctx, 0, b.first); err != nil {
		return err
	}
	b.found.all = b.found.first
	if b.machines > b.first {
		if b.found.rest, err = b.wave(ctx, b.first, b.machines); err != nil {
			return err
		}
		b.found.all = b.found.first.And(b.found.rest)
	}
	b.found.settled, err = b.manager.Usage()
	return errors.Join(err, b.manager.Profile(ctx, b.profiles, "heap", "heap?gc=1"), b.manager.Profile(ctx, b.profiles, "goroutines", "goroutine"))
}

// wave makes some Machines, waits until all have their data Secret, and lets them join. What the manager does until it is idle counts
// for what they cost, and not for their time.
func (b *bench) wave(ctx context.Context, from, to int) (manager.Cost, error) {
	before, err := b.state(ctx)
	if err != nil {
		return manager.Cost{}, err
	}
	profiled := make(chan error, 1)
	go func() {
		profiled <- b.manager.Profile(ctx, b.profiles, fmt.Sprintf("cpu-to-%d", to), "profile?seconds=30")
	}()
	began := time.Now()
	if err := each(ctx, appliers, from, to, b.makeMachine); err != nil {
		return manager.Cost{}, err
	}
	created := func(created, _ int) bool { return created >= to }
	if err := b.until(ctx, "have their data Secret", created); err != nil {
		return manager.Cost{}, err
	}
	made := time.Since(began)
	if err := each(ctx, joiners, from, to, b.join); err != nil {
		return manager.Cost{}, err
	}
	if err := b.until(ctx, "have joined", func(_, revoked int) bool { return revoked >= to }); err != nil {
		return manager.Cost{}, err
	}
	joined := time.Since(began) - made
	if _, err := b.idleSince(ctx, "after that", b.clusters, to); err != nil {
		return manager.Cost{}, err
	}
	after, err := b.state(ctx)
	if err != nil {
		return manager.Cost{}, err
	}
	took := after.Since(before)
	took.Number, took.Took = to-from, made
	b.found.joining += joined
	fmt.Printf("%d to %d: all have their data Secret after %s, and have joined %s later\n%s\n  %s\n  %s\n",
		from+1, to, made.Round(time.Millisecond), joined.Round(time.Millisecond), line("Machine", took), took.WritesByKind(), took.ByController())
	return took, <-profiled
}

// until waits until so many configs are so far.
func (b *bench) until(ctx context.Context, what string, is func(created, revoked int) bool) error {
	began, told := time.Now(), time.Now()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		created, revoked, says := b.progress.count()
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			now, err := b.state(ctx)
			if err != nil {
				return false, err
			}
			fmt.Printf("  %4.0f s: %d have their data Secret, %d joined; manager: %.0f CPU-s, %.0f MiB, %.0f wait, %.0f errors; one says %q\n",
				time.Since(began).Seconds(), created, revoked, now.CPU, now.Resident, now.Waiting, now.Errors, says)
		}
		return is(created, revoked), nil
	})
	if err != nil {
		return fmt.Errorf("wait until all %s: %w", what, err)
	}
	return nil
}

// state is what the manager has used and counted.
func (b *bench) state(ctx context.Context) (manager.State, error) {
	used, err := b.manager.Usage()
	if err != nil {
		return manager.State{}, err
	}
	counted, err := b.manager.Counts(ctx)
	made, _ := b.apis.Connections()
	counted.ToAPIs = float64(made)
	return manager.State{Usage: used, Counts: counted}, err
}
