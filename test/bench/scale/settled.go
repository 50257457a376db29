package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
)

// settle waits until the manager has nothing to do: no reconcile waits, nothing was written, and of so many tenants the API and both
// etcds were asked, for a while.
func (b *bench) settle(ctx context.Context, when string, tenants int) error {
	_, err := b.idleSince(ctx, when, tenants)
	return err
}

// idleSince is settle, and returns since when nothing happened.
func (b *bench) idleSince(ctx context.Context, when string, tenants int) (since time.Time, err error) {
	last, told := -1.0, time.Now()
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		now, err := b.manager.Counts(ctx)
		if err != nil {
			return false, err
		}
		apis, etcds := b.stage.host.Asked()
		written := now.Written()
		if now.Waiting > idleWaiting || written != last || apis < tenants || etcds < 2*tenants || now.Reconciles < float64(tenants) {
			since, last = time.Time{}, written
		} else if since.IsZero() {
			since = time.Now()
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			fmt.Printf("  %s: %.0f wait, %.0f reconciles, %.0f writes, %d APIs and %d etcds of %d tenants were asked\n", when, now.Waiting, now.Reconciles, written, apis, etcds, tenants)
		}
		return !since.IsZero() && time.Since(since) >= quiet, nil
	})
	if err != nil {
		err = fmt.Errorf("wait for the manager to be idle %s: %w", when, err)
	}
	return since, err
}

// idleWaiting is how many control planes of settled tenants may be looked at at any time: there are some each second.
const idleWaiting = 2

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
	after, err := b.state(ctx)
	if err != nil {
		return err
	}
	b.found.atRest = after.Since(before)
	b.found.atRest.Number, b.found.atRest.Took = b.tenants, b.rest
	fmt.Printf("%s\n  %s\n", line(b.found.atRest), b.found.atRest.WritesByKind())
	return <-profiled
}

// editAtRest edits some tenants, one after the other.
func (b *bench) editAtRest(ctx context.Context) error {
	for range edits {
		took, err := b.edit(ctx)
		if err != nil {
			return err
		}
		b.found.edits = append(b.found.edits, took)
	}
	return b.settle(ctx, "after the edits", b.tenants)
}

// edit asks for one more kube-scheduler of a tenant, and returns how long after the API server took that its Deployment
// asks for it. While no webhook answers, it tries again.
func (b *bench) edit(ctx context.Context) (time.Duration, error) {
	key := tenantKey((b.tenants/2 + b.edited) % b.tenants)
	wanted := b.of().Schedulers + 1 + int32(b.edited/b.tenants)
	b.edited++
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"kubeScheduler":{"replicas":%d}}}`, wanted))
	var began time.Time
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		began = time.Now()
		err := b.stage.Client.Patch(ctx, &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, patch)
		if apierrors.IsInternalError(err) { // The webhook does not answer yet.
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return 0, fmt.Errorf("edit control plane %s: %w", key, err)
	}
	deployment := client.ObjectKey{Namespace: key.Namespace, Name: names.Object(key.Name, names.KubeScheduler)}
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		live := &appsv1.Deployment{}
		err := b.stage.host.Cached.Get(ctx, deployment, live)
		return err == nil && *live.Spec.Replicas == wanted, err
	})
	took := time.Since(began)
	fmt.Printf("an edit of %s was applied after %s\n", key, took.Round(time.Millisecond))
	return took, err
}

// restarted waits until a manager that was started anew is idle.
func (b *bench) restarted(ctx context.Context, began time.Time) error {
	idle, err := b.idleSince(ctx, "after the restart", b.tenants)
	if err != nil {
		return err
	}
	after, err := b.state(ctx)
	if err != nil {
		return err
	}
	after.ToEtcds, after.ToAPIs, after.Lists = after.ToEtcds-b.before.ToEtcds, after.ToAPIs-b.before.ToAPIs, after.Lists-b.before.Lists
	b.found.restart = manager.Cost{State: after, Number: b.tenants, Took: idle.Sub(began)}
	fmt.Printf("idle %s after the restart\n%s\n  %s\n  %s\n", b.found.restart.Took.Round(time.Millisecond), line(b.found.restart), b.found.restart.WritesByKind(), b.changes.take())
	return nil
}

// again stops the manager and starts it anew, and returns when the new process was started.
func (b *bench) again(ctx context.Context) (time.Time, error) {
	before, err := b.state(ctx)
	if err != nil {
		return time.Time{}, err
	}
	b.before = before.Counts
	b.changes.take()
	if err := b.manager.Stop(ctx); err != nil {
		return time.Time{}, err
	}
	b.stage.host.ForgetAsked()
	m, err := startManager(ctx, b.stage, b.options)
	if err != nil {
		return time.Time{}, err
	}
	b.manager = m
	return m.Started, nil
}

// editDuringRestart edits a tenant as soon as a manager that was started anew serves webhooks.
func (b *bench) editDuringRestart(ctx context.Context, _ time.Time) (err error) {
	b.found.editRestarting, err = b.edit(ctx)
	return err
}
