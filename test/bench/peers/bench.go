package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/beside"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/journal"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/session"
)

const (
	// limit bounds an upgrade, a deletion and a creation, also of many together.
	limit = 10 * time.Minute
	// starting bounds how long a product takes from its installation until it takes a control plane.
	starting = 5 * time.Minute
	// memory is what a control plane of either product may take of the machine, in bytes.
	memory = 2 * machine.Gibibyte
	// idle is the share of the processors below which the machine is idle.
	idle = 0.15
	// look is the time between two looks at something.
	look = 100 * time.Millisecond
	// inARow is how many answers of the new version end an upgrade: several API servers may answer in turn.
	inARow = 20
	// rate is how many writes a second a journal makes.
	rate = 20
	// warm is the name of the control plane that is not measured.
	warm = "bench-peers-warm"
	// ofBench is the label of the benchmark's namespaces. Its value tells whose control plane is there.
	ofBench = "kok.cluster.x-k8s.io/bench-peers"
)

// bench is a benchmark that runs.
type bench struct {
	*options
	*session.Session
	own, peer *product
	others    *beside.Others
	took      samples
	// installed is true once install.yaml of the peer was applied.
	installed bool
	// failed and sent count the requests of journals during the upgrades of a product.
	failed, sent map[*product]int
}

// measure measures the products in turn: whatever else the machine does slows both.
func (b *bench) measure(ctx context.Context) error {
	if err := b.fit(); err != nil {
		return err
	}
	both := []*product{b.own, b.peer}
	for _, p := range both {
		if err := b.install(ctx, p); err != nil {
			return err
		}
		b.Log.Print("%s: the first control plane is not measured", p.Name)
		// A product that started a moment ago may take none yet.
		if err := b.makeNamespace(ctx, p, warm); err != nil {
			return err
		}
		if err := b.again(ctx, func(ctx context.Context) error { return b.apply(ctx, p, warm, b.from, "--dry-run=server") }); err != nil {
			return fmt.Errorf("%s takes no control plane: %w", p.Name, err)
		}
		if _, err := b.life(ctx, p, warm); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	for round := range b.rounds {
		for i := range both {
			p := both[(round+i)%2]
			took, err := b.life(ctx, p, fmt.Sprintf("bench-peers-%d", round+1))
			if err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			b.took.add(p, took)
		}
	}
	for _, p := range both {
		took, err := b.many(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		b.took.add(p, map[measure]time.Duration{together: took})
	}
	return nil
}

// fit takes fewer control planes together where the machine has no memory for all.
func (b *bench) fit() error {
	available, err := machine.AvailableMemory()
	if err != nil {
		return err
	}
	wanted := b.together
	if b.together, err = machine.Fit(wanted, memory, 0, available); b.together < wanted {
		b.Log.Print("WARNING: there is memory for %d control planes together, not for %d", b.together, wanted)
	}
	return err
}

// install gives host nodes the images of a product, and applies what is applied once.
func (b *bench) install(ctx context.Context, p *product) error {
	for _, archive := range p.images {
		b.Log.Print("%s: %s is loaded", p.Name, archive)
		if err := b.LoadImage(ctx, archive); err != nil {
			return err
		}
	}
	if p.install == "" {
		return nil
	}
	b.installed = true
	return b.again(ctx, func(ctx context.Context) error {
		return b.kubectl(ctx, "", "apply", "--server-side", "--force-conflicts", "--filename", p.install)
	})
}

// again repeats something until it succeeds. The API server knows the kinds of a product some moments after their definitions, and its webhooks
// answer when it runs.
func (b *bench) again(ctx context.Context, do func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, starting, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// life creates, upgrades and deletes a control plane, and returns how long each took.
func (b *bench) life(ctx context.Context, p *product, name string) (map[measure]time.Duration, error) {
	took := map[measure]time.Duration{}
	if err := b.rest(ctx); err != nil {
		return nil, err
	}
	var config *rest.Config
	for _, step := range []struct {
		is measure
		do func(context.Context) error
	}{
		{creation, func(ctx context.Context) (err error) { config, err = b.create(ctx, p, name); return err }},
		{upgrade, func(ctx context.Context) error { return b.upgrade(ctx, p, name, config) }},
		{deletion, func(ctx context.Context) error { return b.delete(ctx, p, name) }},
	} {
		limited, cancel := context.WithTimeout(ctx, limit)
		began := time.Now()
		err := step.do(limited)
		took[step.is] = time.Since(began)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", step.is, name, err)
		}
		b.Log.Print("%s: %s of %s took %.1f s", p.Name, step.is, name, took[step.is].Seconds())
	}
	return took, nil
}

// many creates control planes at once, and returns how long the last one took.
func (b *bench) many(ctx context.Context, p *product) (time.Duration, error) {
	if err := b.rest(ctx); err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	group, inGroup := errgroup.WithContext(limited)
	for i := range b.together {
		group.Go(func() error { _, err := b.create(inGroup, p, fmt.Sprintf("bench-peers-many-%d", i+1)); return err })
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("creation of %d: %w", b.together, err)
	}
	took := time.Since(began)
	b.Log.Print("%s: creation of %d took %.1f s", p.Name, b.together, took.Seconds())
	for i := range b.together {
		if err := b.deleteWithin(ctx, p, fmt.Sprintf("bench-peers-many-%d", i+1)); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// rest waits until the machine is idle.
func (b *bench) rest(ctx context.Context) error {
	busy, err := machine.Settle(ctx, idle, b.settle)
	if err == nil && busy > idle {
		b.Log.Print("WARNING: the machine is %.0f %% busy before the next measurement", 100*busy)
	}
	return err
}

// makeNamespace makes the namespace of a control plane, unless it is there.
func (b *bench) makeNamespace(ctx context.Context, p *product, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ofBench: p.label()}}}
	if err := b.Client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}

// create applies a control plane. It waits until the API took a ConfigMap, and until a controller manager and a scheduler lead.
func (b *bench) create(ctx context.Context, p *product, name string) (*rest.Config, error) {
	if err := b.makeNamespace(ctx, p, name); err != nil {
		return nil, err
	}
	if err := b.apply(ctx, p, name, b.from); err != nil {
		return nil, err
	}
	secret, err := p.secret(name)
	if err != nil {
		return nil, err
	}
	var config *rest.Config
	key := client.ObjectKey{Namespace: name, Name: secret}
	if err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		found := &corev1.Secret{}
		if err := b.Client.Get(ctx, key, found); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		raw, has := found.Data[p.Kubeconfig.Key]
		if !has {
			return false, nil
		}
		var err error
		config, err = clientcmd.RESTConfigFromKubeConfig(raw)
		return err == nil, err
	}); err != nil {
		return nil, fmt.Errorf("wait for the kubeconfig in Secret %s, key %s: %w", key, p.Kubeconfig.Key, err)
	}
	return config, probe.API(ctx, config, timeline.Start())
}

// upgrade applies the other version while a journal writes and reads. It waits until API servers answer with that version alone.
func (b *bench) upgrade(ctx context.Context, p *product, name string, config *rest.Config) error {
	written, err := journal.Start(ctx, journal.Options{Name: "upgrade", Namespace: metav1.NamespaceDefault, Rate: rate, Config: config})
	if err != nil {
		return err
	}
	defer written.Stop()
	if err := b.apply(ctx, p, name, b.to); err != nil {
		return err
	}
	fresh, err := load.Fresh(config)
	if err != nil {
		return err
	}
	fresh.Timeout = 2 * time.Second
	api, err := kubernetes.NewForConfig(fresh)
	if err != nil {
		return err
	}
	row := 0
	if err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		row++
		if said, err := api.Discovery().ServerVersion(); err != nil || said.GitVersion != b.to {
			row = 0
		}
		return row == inARow, nil
	}); err != nil {
		return fmt.Errorf("wait until only %s answers: %w", b.to, err)
	}
	written.Stop()
	result := written.Result()
	b.Log.Print("%s: %s", p.Name, result)
	b.failed[p] += len(result.Failed)
	b.sent[p] += result.Due + result.Read
	return nil
}

// apply applies a control plane of a version.
func (b *bench) apply(ctx context.Context, p *product, name, version string, flags ...string) error {
	manifests, err := p.manifests(name, version)
	if err != nil {
		return err
	}
	return b.kubectl(ctx, manifests, append([]string{"apply", "--server-side", "--filename", "-"}, flags...)...)
}

// delete deletes a control plane. It waits until no pod of it is left, and then until its namespace is gone.
func (b *bench) delete(ctx context.Context, p *product, name string) error {
	manifests, err := p.manifests(name, b.to)
	if err != nil {
		return err
	}
	if err := b.kubectl(ctx, manifests, "delete", "--ignore-not-found", "--filename", "-"); err != nil {
		return err
	}
	if err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := b.Client.List(ctx, pods, client.InNamespace(name))
		return len(pods.Items) == 0, err
	}); err != nil {
		return fmt.Errorf("wait until no pod of %s is left: %w", name, err)
	}
	return tenant.RemoveNamespace(ctx, b.Client, name)
}

func (b *bench) deleteWithin(ctx context.Context, p *product, name string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return b.delete(ctx, p, name)
}

// clean takes away the control planes of the benchmark. Those of another peer need that one's manifests.
func (b *bench) clean(ctx context.Context) error {
	left := &corev1.NamespaceList{}
	if err := b.Client.List(ctx, left, client.HasLabels{ofBench}); err != nil {
		return fmt.Errorf("list namespaces of the benchmark: %w", err)
	}
	var failed []error
	for _, namespace := range left.Items {
		switch side := namespace.Labels[ofBench]; side {
		case b.own.label():
			failed = append(failed, b.deleteWithin(ctx, b.own, namespace.Name))
		case b.peer.label():
			failed = append(failed, b.deleteWithin(ctx, b.peer, namespace.Name))
		default:
			failed = append(failed, fmt.Errorf("namespace %s has a control plane of %s: run the benchmark with that product's folder once more, or delete what is in it", namespace.Name, side))
		}
	}
	return errors.Join(failed...)
}

// uninstall takes the peer away.
func (b *bench) uninstall(ctx context.Context) error {
	if !b.installed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return b.kubectl(ctx, "", "delete", "--ignore-not-found", "--filename", b.peer.install)
}

// kubectl runs kubectl on the host cluster, with an input.
func (b *bench) kubectl(ctx context.Context, input string, args ...string) error {
	cmd := exec.CommandContext(ctx, b.Set.Kubectl, append([]string{"--kubeconfig", b.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return nil
}
