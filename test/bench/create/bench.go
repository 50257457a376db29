package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/beside"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/floor"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

const (
	// namespace of the tenants; it is made and removed.
	namespace = "kok-bench"
	// runLimit bounds one creation or deletion, cleanLimit the deletion of all tenants.
	runLimit   = 5 * time.Minute
	cleanLimit = 10 * time.Minute
	// memoryHA and memorySingle are what a control plane takes of the machine, in bytes: an API server 290 MiB, a member of
	// etcd 85, a controller-manager 115, a scheduler 70, and 17 for each pod.
	memoryHA     = 2 * machine.Gibibyte
	memorySingle = 3 * machine.Gibibyte / 4
)

// bench is a benchmark that runs.
type bench struct {
	*options
	lab     *lab.Lab
	client  client.Client
	watcher *tenant.Watcher
	// all are the lab's hosts, hosts those that are measured; where apart is set, by labels that no other has.
	all, hosts []*host.Host
	apart      map[string]string
	// others are in the lab beside what is measured.
	others  *beside.Others
	version string
	// restarts and failedMounts are of all tenants.
	restarts, failedMounts int
	figures                []figures.Figure
}

// run measures every mode and cleans up, also when it is interrupted.
func run(ctx context.Context, o *options) error {
	release, err := machine.Claim()
	if err != nil {
		return err
	}
	defer release()
	b := &bench{options: o, version: artifacts.DefaultVersions().Host}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := b.open(watching); err != nil {
		return err
	}
	defer b.watcher.Close()
	// What an interrupted benchmark left is in the way.
	if err := b.clean(ctx); err != nil {
		return err
	}
	err = b.prepare(ctx)
	if err == nil {
		err = b.measure(ctx)
	}
	if err := errors.Join(err, b.clean(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	fmt.Printf("\nbeside it: %s\n", b.others)
	b.count("create_restarts", b.restarts, "restarts of containers")
	b.count("create_slow_mounts", b.failedMounts, "reports that a volume could not be mounted yet")
	for _, figure := range b.figures {
		fmt.Println(figure)
	}
	return errors.Join(figures.Write("bench-create", b.figures), b.others.Recovered(ctx))
}

// open connects to the lab.
func (b *bench) open(ctx context.Context) error {
	var err error
	if b.lab, err = lab.Open(lab.StateDirectory()); err != nil {
		return err
	}
	config, err := b.lab.RESTConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	if b.client, err = client.New(config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		return fmt.Errorf("reach the host cluster (is the lab up?): %w", err)
	}
	if err := b.findHosts(ctx); err != nil {
		return err
	}
	b.watcher, err = tenant.Watch(ctx, config, b.client, namespace, b.hosts)
	return err
}

// prepare says what is in the lab beside the benchmark, and gives the benchmark a namespace and hosts.
func (b *bench) prepare(ctx context.Context) error {
	var err error
	if b.others, err = beside.Find(ctx, b.client, b.all, namespace); err != nil {
		return err
	}
	fmt.Printf("beside it: %s\n", b.others)
	if err := errors.Join(b.fit(), floor.CheckPorts(b.hosts)); err != nil {
		return err
	}
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	return b.setApart(ctx)
}

// fit finds out whether the machine has memory for what is measured, and takes fewer tenants where that helps.
func (b *bench) fit() error {
	available, err := machine.AvailableMemory()
	if err != nil {
		return err
	}
	for _, mode := range b.modes {
		switch mode {
		case modeHA:
			_, err = machine.Fit(1, memoryHA, 0, available)
		case modeSingle:
			_, err = machine.Fit(1, memorySingle, 0, available)
		case modeMany:
			wanted := b.many
			if b.many, err = machine.Fit(wanted, memorySingle, 0, available); b.many < wanted {
				fmt.Printf("WARNING: there is memory for %d tenants together, not for %d\n", b.many, wanted)
			}
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", mode, err)
		}
	}
	return nil
}

// clean removes the tenants, the namespace, the floor, and the labels of hosts.
func (b *bench) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	clusters := &clusterv1.ClusterList{}
	if err := b.client.List(ctx, clusters, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list tenants of the benchmark: %w", err)
	}
	for i := range clusters.Items {
		key := client.ObjectKeyFromObject(&clusters.Items[i])
		fmt.Printf("deleting tenant %s\n", key)
		if _, err := b.watcher.Delete(ctx, key); err != nil {
			return err
		}
	}
	if err := tenant.RemoveNamespace(ctx, b.client, namespace); err != nil {
		return err
	}
	return errors.Join(b.giveBack(ctx), floor.Clean(dataCentre(b.all)))
}

// tenantRun is one creation and deletion.
type tenantRun struct {
	tenant  *tenant.Tenant
	deleted *timeline.Timeline
}

// createAndDelete measures one tenant. It is deleted also when its creation failed.
func (b *bench) createAndDelete(ctx context.Context, s shape.Shape, name string, labels map[string]string) (*tenantRun, error) {
	fmt.Printf("\ntenant %s\n", name)
	before, err := b.settle(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	created, err := b.watcher.Create(limited, key, s, b.version, labels)
	if err != nil {
		return nil, err
	}
	b.printUse(before)
	b.tellTrouble(created)
	deleted, err := b.watcher.Delete(limited, key)
	if err != nil {
		return nil, err
	}
	return &tenantRun{created, deleted}, nil
}

// runFloor measures the floor of a shape.
func (b *bench) runFloor(ctx context.Context, s shape.Shape, run int) (*timeline.Timeline, error) {
	fmt.Printf("\nfloor of %s, run %d: without servers of konnectivity\n", s.Name, run)
	config := &floor.Config{Shape: s, Hosts: b.hosts, Version: b.version}
	cluster, controlPlane := s.Objects(client.ObjectKey{Namespace: namespace, Name: "floor"}, b.version, nil)
	// The host cluster fills in the defaults that a tenant gets.
	if err := b.client.Create(ctx, controlPlane, client.DryRunAll); err != nil {
		return nil, fmt.Errorf("ask for the defaults of a KOKControlPlane: %w", err)
	}
	config.Spec, config.Network = controlPlane.Spec, components.NetworkOf(cluster)
	before, err := b.settle(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	return floor.Run(limited, config, func() { b.printUse(before) })
}

// tellTrouble tells what went wrong while a tenant was created, and counts it.
func (b *bench) tellTrouble(t *tenant.Tenant) {
	b.failedMounts += t.FailedMounts()
	for _, restart := range t.Restarts() {
		b.restarts += int(restart.Count)
		fmt.Printf("  container of %s was restarted %d times (%s)\n", restart.Pod, restart.Count, restart.Reason)
	}
	for _, what := range t.Trouble() {
		fmt.Printf("  reported: %s\n", what)
	}
}
