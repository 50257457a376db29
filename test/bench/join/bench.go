package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/onetenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

const (
	// name of the tenant and its namespace, and of the owner of its workers' hosts.
	name = "bench-join"
	// limit bounds each part.
	limit = 10 * time.Minute
	// interval is how often it looks, and so how exact the figures are.
	interval = 100 * time.Millisecond
	// idle is the share of busy processors below which machines begin to join; settleLimit is how long that is waited for.
	idle        = 0.15
	settleLimit = 2 * time.Minute
	// memoryTenant and memoryWorker are what the control plane, three API servers among it, and one worker take of the
	// machine, in bytes.
	memoryTenant = 3 * machine.Gibibyte / 2
	memoryWorker = 3 * machine.Gibibyte / 8
)

type options struct {
	together int
	programs string
}

// bench is one tenant and the hosts that join it.
type bench struct {
	*options
	*onetenant.Bench
	api *kubernetes.Clientset
}

func (b *bench) run(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	alone, err := b.join(ctx, 1)
	if err != nil {
		return err
	}
	together, err := b.join(ctx, b.together)
	if err != nil {
		return err
	}
	bare, parts, err := b.joinBare(ctx)
	if err != nil {
		return err
	}
	preinstalled := fmt.Sprintf("join_%d_", b.together)
	measured := slices.Concat([]figures.Figure{
		seconds("join_seconds", longest(alone)),
		seconds(preinstalled+"seconds", longest(together)),
	}, parts.figures(preinstalled+"software_", longest(bare)))
	if rest := parts.rest; rest > longest(together) {
		b.Log.Print("WARNING: without the download of their software and of images machines took %.1f s, which is more than the %.1f s of machines that had it", rest.Seconds(), longest(together).Seconds())
	}
	return b.Report(measured)
}

func seconds(name string, took time.Duration) figures.Figure {
	return figures.New(name, fmt.Sprintf("%.1f", took.Seconds()), "s")
}

// longest is the time of the last of some machines, in which all of them joined.
func longest(took map[string]time.Duration) time.Duration {
	return slices.Max(slices.Collect(maps.Values(took)))
}

// look says what is in the lab beside the benchmark, and whether the machine has memory for it. Fewer machines join together
// where that helps.
func (b *bench) look(ctx context.Context) error {
	if err := b.Look(ctx); err != nil {
		return err
	}
	available, err := machine.AvailableMemory()
	if err != nil {
		return err
	}
	wanted := b.together
	if b.together, err = machine.Fit(wanted, memoryWorker, memoryTenant+memoryWorker, available); b.together < wanted {
		b.Log.Print("WARNING: there is memory for %d machines that join together, not for %d", b.together, wanted)
	}
	return err
}

// prepare makes a control plane without workers, the hosts for them, and what a Node needs to turn ready.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.look(ctx); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := b.Client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	err := b.Tenant.Apply(ctx, map[string]string{
		"ETCD_REPLICAS": "1", "ETCD_EVENTS_REPLICAS": "1", "CONTROLLER_MANAGER_REPLICAS": "1", "SCHEDULER_REPLICAS": "1",
		"WORKER_MACHINE_COUNT": "0", "KUBE_PROXY_CONNTRACK": "None", "SOFTWARE_MODE": "Preinstalled",
	})
	if err != nil {
		return err
	}
	if err := b.Tenant.Wait(ctx); err != nil {
		return err
	}
	// All hosts are new: no tenant had them before, and none gets them meanwhile.
	pool := &workers.Pool{
		Lab: b.Lab, Client: b.Client, Namespace: name, Owner: name, Log: b.Log,
		Programs: []string{filepath.Join(b.programs, "kok-apiserver-lb")},
	}
	if _, err := pool.Ensure(ctx, 1+b.together); err != nil {
		return err
	}
	if err := b.Tenant.InstallNetwork(ctx, b.Set.Flannel); err != nil {
		return err
	}
	if b.api, err = b.API(ctx); err != nil {
		return err
	}
	return b.waitFree(ctx, 1+b.together)
}

// waitFree waits until so many hosts are known, and every one was found to be free.
func (b *bench) waitFree(ctx context.Context, count int) error {
	return b.Log.Wait(ctx, "free hosts", limit, nil, func(ctx context.Context) (bool, string, error) {
		hosts := &infrav1.IDCHostList{}
		if err := b.Client.List(ctx, hosts, client.InNamespace(name)); err != nil {
			return false, "", err
		}
		for i := range hosts.Items {
			for _, condition := range hosts.Items[i].Status.Conditions {
				if condition.Type == infrav1.AvailableCondition && condition.Status != metav1.ConditionTrue {
					return false, hosts.Items[i].Name + ": " + condition.Message, nil
				}
			}
		}
		return len(hosts.Items) >= count, fmt.Sprintf("%d hosts are known", len(hosts.Items)), nil
	})
}

// join adds machines and returns how long each took, by the Machine's name, from when that was there until its Node was ready.
func (b *bench) join(ctx context.Context, count int) (map[string]time.Duration, error) {
	known, err := b.machines(ctx)
	if err != nil {
		return nil, err
	}
	b.Log.Title(fmt.Sprintf("%d machines join", count))
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	if err := b.patchMachines(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, len(known)+count)); err != nil {
		return nil, err
	}
	created, took := map[string]time.Time{}, map[string]time.Duration{}
	err = wait.PollUntilContextTimeout(ctx, interval, limit, true, func(ctx context.Context) (bool, error) {
		machines, err := b.machines(ctx)
		if err != nil {
			return false, err
		}
		nodes, err := b.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		now := time.Now()
		for machine := range machines {
			if _, seen := created[machine]; !known[machine] && !seen {
				created[machine] = now
			}
		}
		for i := range nodes.Items {
			machine := nodes.Items[i].Name // it has its Machine's name
			if _, done := took[machine]; !created[machine].IsZero() && !done && ready(&nodes.Items[i]) {
				took[machine] = now.Sub(created[machine])
				b.Log.Print("%s is ready after %.1f s", machine, took[machine].Seconds())
			}
		}
		return len(took) == count, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%d of %d machines joined: %w", len(took), count, err)
	}
	return took, nil
}

// settle waits until the machine is idle or stays as busy as it is, and tells how busy that is.
func (b *bench) settle(ctx context.Context) error {
	busy, err := machine.Settle(ctx, idle, settleLimit)
	if err != nil {
		return err
	}
	b.Log.Print("%.0f%% of the processors busy before", 100*busy)
	if busy >= idle {
		b.Log.Print("WARNING: the machine is busy with something else: times are too long")
	}
	return nil
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

func (b *bench) machines(ctx context.Context) (map[string]bool, error) {
	list := &clusterv1.MachineList{}
	if err := b.Client.List(ctx, list, client.InNamespace(name)); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	names := map[string]bool{}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	return names, nil
}

// close cleans up, and after a benchmark that came to its end waits until others are as before.
func (b *bench) close(ctx context.Context, failed error) error {
	if err := errors.Join(failed, b.clean(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	return b.Others.Recovered(ctx)
}

// clean deletes the tenant and then removes its hosts, also those of a benchmark that was interrupted.
func (b *bench) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	if err := b.Tenant.Delete(ctx); err != nil {
		return err
	}
	return b.RemoveOwned(ctx, name)
}
