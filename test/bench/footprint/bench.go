package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/onetenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

const (
	// name of the tenants and of their namespace.
	name = "bench-footprint"
	// cleanLimit bounds the deletion of a tenant; told is how often a wait is told of; writers write objects at once.
	cleanLimit = 10 * time.Minute
	told       = time.Minute
	writers    = 16
)

// bench measures one control plane after the other.
type bench struct {
	*options
	*onetenant.Bench
}

func (b *bench) run(ctx context.Context) error {
	// What an interrupted benchmark left would be measured, too.
	if err := b.clean(ctx); err != nil {
		return err
	}
	if err := b.Look(ctx); err != nil {
		return err
	}
	var measured []figures.Figure
	for _, of := range b.shapes {
		idle, filled, err := b.measure(ctx, of)
		// The tenant goes also after an interrupt.
		if err := errors.Join(err, b.clean(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		b.Log.Title(fmt.Sprintf("%s, idle after %s", of.Name, b.after))
		fmt.Fprint(b.Log, idle.table())
		b.Log.Title(fmt.Sprintf("%s, idle with %d objects more", of.Name, b.objects))
		fmt.Fprint(b.Log, filled.table())
		measured = append(measured, idle.figures("tenant_"+of.Name+"_")...)
		measured = append(measured, filled.figures(fmt.Sprintf("tenant_%s_%d_objects_", of.Name, b.objects))...)
	}
	return errors.Join(b.Report(measured), b.Others.Recovered(ctx))
}

// measure makes a control plane, and measures it when it has run for a while, and again with objects.
func (b *bench) measure(ctx context.Context, s shape.Shape) (idle, filled footprint, err error) {
	variables, err := b.variables(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if err := b.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return nil, nil, fmt.Errorf("make namespace %s: %w", name, err)
	}
	if err := b.Tenant.Apply(ctx, variables); err != nil {
		return nil, nil, err
	}
	if err := b.Tenant.Wait(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.pass(ctx, "it runs", b.after); err != nil {
		return nil, nil, err
	}
	if idle, err = b.take(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.fill(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.pass(ctx, "it is left alone", b.calm); err != nil {
		return nil, nil, err
	}
	filled, err = b.take(ctx)
	return idle, filled, err
}

// variables are those of the template. A control plane has an API server on each of its host nodes, so a single one gets one host node.
func (b *bench) variables(ctx context.Context, s shape.Shape) (map[string]string, error) {
	replicas := func(count int32) string { return strconv.Itoa(int(count)) }
	variables := map[string]string{
		"ETCD_REPLICAS": replicas(s.EtcdMembers), "ETCD_EVENTS_REPLICAS": replicas(s.EtcdMembers),
		"CONTROLLER_MANAGER_REPLICAS": replicas(s.ControllerManagers), "SCHEDULER_REPLICAS": replicas(s.Schedulers),
	}
	if s.EventsMode != "" {
		variables["ETCD_EVENTS_MODE"] = string(s.EventsMode)
	}
	nodes := &corev1.NodeList{}
	if err := b.Client.List(ctx, nodes, client.MatchingLabels{controlplanev1.HostNodeLabel: "true"}); err != nil {
		return nil, fmt.Errorf("list host nodes: %w", err)
	}
	switch count := len(nodes.Items); {
	case int(s.APIServers) > count || s.APIServers > 1 && int(s.APIServers) < count:
		return nil, fmt.Errorf("a control plane of the shape %s is measured on %d host nodes, and the lab has %d", s.Name, s.APIServers, count)
	case s.APIServers == 1:
		variables["HOST_NODE_SELECTOR"] = fmt.Sprintf("%s: \"true\", %s: %s", controlplanev1.HostNodeLabel, corev1.LabelHostname, nodes.Items[0].Name)
	}
	return variables, nil
}

// pass lets time go by, and tells of it.
func (b *bench) pass(ctx context.Context, what string, long time.Duration) error {
	end := time.NewTimer(long)
	defer end.Stop()
	tick := time.NewTicker(told)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-tick.C:
			b.Log.Print("%s: %s of %s", what, time.Since(began).Round(time.Second), long)
		}
	}
}

// take measures the control plane as it is.
func (b *bench) take(ctx context.Context) (footprint, error) {
	pids, err := b.processes(ctx)
	if err != nil {
		return nil, err
	}
	before, err := usageOf(pids)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.pass(ctx, "it is measured", b.window); err != nil {
		return nil, err
	}
	after, err := usageOf(pids)
	if err != nil {
		return nil, err
	}
	return of(before, after, time.Since(began)), nil
}

// processes are those of the control plane's pods, by component. Each pod has one more than it has containers, which keeps its sandbox.
func (b *bench) processes(ctx context.Context) (map[string][]int, error) {
	pods := &corev1.PodList{}
	if err := b.Client.List(ctx, pods, client.InNamespace(name), client.MatchingLabels(names.Labels(b.Tenant.Key))); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", b.Tenant.Key, err)
	}
	var uids []string
	for i := range pods.Items {
		uids = append(uids, string(pods.Items[i].UID))
	}
	found, err := processes.Of(uids)
	if err != nil {
		return nil, err
	}
	pids := map[string][]int{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ofPod := found[string(pod.UID)]
		if len(ofPod) == 0 {
			return nil, fmt.Errorf("pod %s has no process on this machine", pod.Name)
		}
		component := pod.Labels[names.ComponentLabel]
		pids[component] = append(pids[component], ofPod...)
	}
	return pids, nil
}

// usageOf is what processes use, by component.
func usageOf(pids map[string][]int) (map[string]usage, error) {
	all := map[string]usage{}
	for component, some := range pids {
		sum := usage{}
		for _, pid := range some {
			used, err := processes.UsageOf(pid)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", component, err)
			}
			proportional, err := processes.Proportional(pid)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", component, err)
			}
			sum.Usage, sum.proportional = sum.Plus(used), sum.proportional+proportional
		}
		all[component] = sum
	}
	return all, nil
}

// fill writes objects into the tenant.
func (b *bench) fill(ctx context.Context) error {
	api, err := b.API(ctx)
	if err != nil {
		return err
	}
	b.Log.Print("%d ConfigMaps are written", b.objects)
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range b.objects {
		group.Go(func() error {
			_, err := api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("footprint-%05d", i)},
				Data:       map[string]string{"value": strings.Repeat("x", 1<<10)},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// clean deletes the tenant, also that of a benchmark that was interrupted.
func (b *bench) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	return b.Tenant.Delete(ctx)
}
