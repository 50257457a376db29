package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/scale/standin"
)

const (
	// appliers is how many tenants are applied at once.
	appliers = 16
	// limit bounds each wait; a benchmark that exceeds it has failed.
	limit = 2 * time.Hour
	// quiet is for how long nothing may happen before the manager counts as idle.
	quiet = 5 * time.Second
	// edits are measured so often, each of another tenant.
	edits = 3
)

// bench is a benchmark that runs.
type bench struct {
	*options
	stage   *stage
	manager *manager.Process
	version string
	// edited counts the edits of all tenants.
	edited int
	// before is what was counted before the manager was stopped.
	before manager.Counts
	// changes counts what changed in control planes.
	changes changes
	found   results
}

func run(ctx context.Context, o *options) (err error) {
	b := &bench{options: o, stage: newStage()}
	b.found.tenants = o.tenants
	b.version = versions.BuiltIn().Newest().Minor + ".0"
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, b.stage.stop()) }()
	fmt.Println("start etcd, kube-apiserver and what stands in for the rest of a host cluster")
	if err := b.stage.start(ctx, o.pools()); err != nil {
		return err
	}
	if err := b.stage.host.OnChange(ctx, b.changes.add); err != nil {
		return err
	}
	if b.manager, err = startManager(ctx, b.stage, o); err != nil {
		return err
	}
	defer func() { b.manager.Kill() }()
	for _, step := range []func(context.Context) error{b.create, b.rests, b.editAtRest} {
		if err := b.manager.While(ctx, step); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context, time.Time) error{b.restarted, b.editDuringRestart} {
		began, err := b.again(ctx)
		if err != nil {
			return err
		}
		if err := b.manager.While(ctx, func(ctx context.Context) error { return step(ctx, began) }); err != nil {
			return err
		}
	}
	return b.found.report()
}

func tenantKey(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: manager.TenantsNamespace, Name: fmt.Sprintf("t%05d", i)}
}

// create makes the tenants in two waves, and says what each cost.
func (b *bench) create(ctx context.Context) error {
	if err := b.settle(ctx, "before the first tenant", 0); err != nil {
		return err
	}
	before, err := b.manager.Usage()
	if err != nil {
		return err
	}
	b.found.empty = before
	first, err := b.wave(ctx, 0, b.first)
	if err != nil {
		return err
	}
	b.found.first, b.found.all = first, first
	if b.tenants > b.first {
		if b.found.rest, err = b.wave(ctx, b.first, b.tenants); err != nil {
			return err
		}
		b.found.all = first.And(b.found.rest)
	}
	b.found.settled, err = b.manager.Usage()
	return errors.Join(err, b.manager.Profile(ctx, b.profiles, "heap", "heap?gc=1"))
}

// wave makes some tenants, and waits until all are Available and the manager has nothing to do for them any more. What
// it does then counts for what they cost, and not for their time.
func (b *bench) wave(ctx context.Context, from, to int) (manager.Cost, error) {
	before, err := b.state(ctx)
	if err != nil {
		return manager.Cost{}, err
	}
	began := time.Now()
	work, applying := errgroup.WithContext(ctx)
	work.SetLimit(appliers)
	profiled := make(chan error, 1)
	go func() {
		if b.profiles == "" || from == 0 && b.tenants > b.first {
			profiled <- nil
			return
		}
		profiled <- b.manager.Profile(ctx, b.profiles, "cpu-create", "profile?seconds=30")
	}()
	for i := from; i < to; i++ {
		work.Go(func() error { return b.apply(applying, tenantKey(i), b.poolOf(i)) })
	}
	if err := work.Wait(); err != nil {
		return manager.Cost{}, err
	}
	applied := time.Since(began)
	if err := b.untilAvailable(ctx, began, to); err != nil {
		return manager.Cost{}, err
	}
	took := time.Since(began)
	fmt.Printf("%d to %d: applied after %s, all Available after %s\n", from+1, to, applied.Round(time.Millisecond), took.Round(time.Millisecond))
	if err := errors.Join(<-profiled, b.settle(ctx, "after that", to)); err != nil {
		return manager.Cost{}, err
	}
	after, err := b.state(ctx)
	if err != nil {
		return manager.Cost{}, err
	}
	made := after.Since(before)
	made.Number, made.Took = to-from, took
	fmt.Printf("%s\n  %s\n", line(made), made.WritesByKind())
	return made, nil
}

// apply makes a tenant as Cluster API's core leaves it: the control plane has its Cluster for its owner.
func (b *bench) apply(ctx context.Context, key client.ObjectKey, pool string) error {
	var on map[string]string
	if b.of().APIServers == 1 {
		on = standin.Node(pool, 0)
	}
	cluster, controlPlane := b.of().Objects(key, b.version, on)
	if err := b.stage.Client.Create(ctx, cluster); err != nil {
		return fmt.Errorf("make Cluster %s: %w", key, err)
	}
	controlPlane.Spec.Hosting.PortPool = pool
	controlPlane.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
	controlPlane.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind))}
	if err := b.stage.Client.Create(ctx, controlPlane); err != nil {
		return fmt.Errorf("make control plane %s: %w", key, err)
	}
	return nil
}

// untilAvailable waits until so many tenants are Available.
func (b *bench) untilAvailable(ctx context.Context, began time.Time, wanted int) error {
	told := time.Now()
	return wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		list := &controlplanev1.KOKControlPlaneList{}
		if err := b.stage.host.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, err
		}
		available, says := 0, map[string]int{}
		for i := range list.Items {
			condition := conditions.Get(&list.Items[i], conditionsv1.AvailableCondition)
			switch {
			case condition == nil:
				says["nothing"]++
			case condition.Status == metav1.ConditionTrue:
				available++
			default:
				says[condition.Message]++
			}
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			now, err := b.state(ctx)
			if err != nil {
				return false, err
			}
			fmt.Printf("  %4.0f s: %d of %d are Available; manager: %.0f CPU-s, %.0f MiB, %.0f reconciles, %.0f wait, %.0f errors; most say %q\n",
				time.Since(began).Seconds(), available, wanted, now.CPU, now.Resident, now.Reconciles, now.Waiting, now.Errors, most(says))
		}
		return available >= wanted, nil
	})
}

// most is the text that most say.
func most(says map[string]int) string {
	found, count := "", 0
	for text, n := range says {
		if n > count || n == count && text < found {
			found, count = text, n
		}
	}
	return found
}

// state is what the manager has used and counted.
func (b *bench) state(ctx context.Context) (manager.State, error) {
	used, err := b.manager.Usage()
	if err != nil {
		return manager.State{}, err
	}
	counted, err := b.manager.Counts(ctx)
	if err != nil {
		return manager.State{}, err
	}
	counted.Lists, err = b.stage.Lists(ctx)
	etcds, apis := b.stage.host.Connections()
	counted.ToEtcds, counted.ToAPIs = float64(etcds), float64(apis)
	return manager.State{Usage: used, Counts: counted}, err
}
