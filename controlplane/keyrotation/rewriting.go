package keyrotation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addresses"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rewriting"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

const (
	// rewritingProbeKind is the kind of the probe that has API servers write again what the former encryption key encrypted.
	rewritingProbeKind = "rewriting"
	// rewritingTimeout bounds a run. The next one goes on, within a minute.
	rewritingTimeout = time.Minute
	// mostResources is how many resources are named that have objects left.
	mostResources = 10
	// mostReads is how many etcds of all tenants the manager reads at the same time: pages have up to 4 MiB.
	mostReads = 4
)

// addObjects adds what the former encryption key encrypted. API servers write it again, and nobody can give it up: without the key nobody
// could read it.
func (u *run) addObjects(ctx context.Context, state *rotation.State, l look) error {
	of := u.keys.Rotation(pki.Encryption).File()
	unknown := func(why string) {
		state.Needs = append(state.Needs, rotation.Need{Name: "objects/" + of, Why: why, Lost: true, Unknown: true})
	}
	if u.of.Restoring {
		u.Prober.Withdraw(l.key)
		unknown("spec.etcd.restore asks for a restore in place, which is not over: what it brings may be encrypted by the former key")
		return nil
	}
	check, err := u.rewritingProbe(ctx, of)
	if err != nil {
		return err
	}
	result, told := u.Prober.Probe(l.key, check.probe(state.Record, l.due))
	progress, seen := result.Value.(rewriting.Progress)
	switch {
	case !told:
		u.step.Probing = true
		unknown("etcd is being looked at")
	case seen && progress.Done:
	case len(progress.Left) == 0:
		unknown(result.Problem)
	default:
		state.Doing = result.Problem
		for _, left := range leftObjectsOf(progress) {
			state.Needs = append(state.Needs, rotation.Need{Name: "objects/" + of + "/" + left.resource, Why: left.why, Lost: true})
		}
	}
	return nil
}

type leftObjects struct{ resource, why string }

// leftObjectsOf tells of the resources that have objects left: the first ones by name, the others as a sum.
func leftObjectsOf(progress rewriting.Progress) []leftObjects {
	var all []leftObjects
	others, sum := 0, 0
	for _, resource := range slices.Sorted(maps.Keys(progress.Left)) {
		number := progress.Left[resource]
		if len(all) < mostResources {
			why := fmt.Sprintf("%d are encrypted by the former key", number)
			if progress.Unserved[resource] {
				why += ", and no API that API servers serve has them; docs/keys.md says what to do"
			}
			all = append(all, leftObjects{resource, why})
			continue
		}
		others, sum = others+1, sum+number
	}
	if others > 0 {
		all = append(all, leftObjects{"others", fmt.Sprintf("%d of %d other resources are encrypted by the former key", sum, others)})
	}
	return all
}

// rewritingCheck has objects written again. Its rewriter goes on from run to run.
type rewritingCheck struct {
	rewriter *rewriting.Rewriter
	// healths ask each etcd how its members are. A member that was away has former values, and a restore in place could begin with it.
	healths []func(context.Context) (*etcd.Health, error)
	// lagged is true when a voter lagged after the last whole pass.
	lagged bool
	// identity changes with all that the check depends on.
	identity string
}

func (u *run) rewritingProbe(ctx context.Context, file string) (*rewritingCheck, error) {
	api := u.Tenants.Of(u.of.ControlPlane, u.keys)
	rewriter := &rewriting.Rewriter{File: file, Connect: api.Config, Clock: u.Clock}
	var healths []func(context.Context) (*etcd.Health, error)
	var identity strings.Builder
	fmt.Fprintln(&identity, file, u.of.ControlPlane.Spec.EncryptionAtRest.Resources, api.Identity())
	in := u.input
	recorded, err := addresses.Read(ctx, u.of.Revisions, u.of.Cluster)
	if err != nil {
		return nil, err
	}
	in.Addresses = recorded.Services
	// Steps that come later in the order claim ports. Those of a control plane that runs are known.
	if in.Ports = ports.Of(u.of.ControlPlane.Spec.Hosting.Ports.First); in.OnPodNetwork() {
		in.Ports = ports.OnPodNetwork(in.Network.APIServerPort)
	}
	for _, cluster := range etcdcomponent.All {
		if len(cluster.Wanted(&in)) == 0 {
			continue // Events are in the data.
		}
		task := &operator.Task{Cluster: cluster, Host: u.of.Host, Keys: u.keys, Input: in}
		rewriter.Etcds, healths = append(rewriter.Etcds, u.etcdOf(task)), append(healths, u.healthOf(task))
		// Another founding of an etcd brings other values.
		present := etcdclusters.Status(u.of.ControlPlane, cluster.Component)
		fmt.Fprintln(&identity, task.Identity(), present.ClusterID, rebuild.Stamp(present.RestoredAt.Time))
	}
	return &rewritingCheck{rewriter: rewriter, healths: healths, identity: identity.String()}, nil
}

// etcdOf reads what is in an etcd cluster.
func (r *Rotator) etcdOf(task *operator.Task) rewriting.Etcd {
	return func(ctx context.Context, from string, do func(key string, value []byte) bool) (string, error) {
		members, config, err := task.Reach(r.Clock)
		switch {
		case err != nil:
			return from, err
		case len(members) == 0:
			return from, errors.New("no member has an address")
		case r.Etcd.EachValue == nil:
			return from, errors.New("no etcd can be read")
		}
		leave, err := r.Reads.take(ctx)
		if err != nil {
			return from, err
		}
		defer leave()
		return r.Etcd.EachValue(ctx, members, config, from, do)
	}
}

// healthOf asks the members of an etcd cluster how they are.
func (r *Rotator) healthOf(task *operator.Task) func(context.Context) (*etcd.Health, error) {
	return func(ctx context.Context) (*etcd.Health, error) {
		members, config, err := task.Reach(r.Clock)
		if err != nil {
			return nil, err
		}
		return r.Etcd.Check(ctx, members, config)
	}
}

// Reads has a place for each etcd that is read at the same time, mostReads at the most. The zero value is ready.
type Reads struct {
	once   sync.Once
	places *semaphore.Weighted
}

// take waits for a place until the context ends. leave gives the place back.
func (t *Reads) take(ctx context.Context) (leave func(), err error) {
	t.once.Do(func() { t.places = semaphore.NewWeighted(mostReads) })
	if err := t.places.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("wait until fewer etcds are read: %w", err)
	}
	return func() { t.places.Release(1) }, nil
}

// probe looks anew in each phase, and once more when the next step is due. An API server that nobody sees may have written by the
// former key since the last look.
func (c *rewritingCheck) probe(of rotation.Record, due bool) probe.Probe {
	return probe.Probe{
		Identity: fmt.Sprintf("%s\n%s\n%s\n%t\n%s", of.Asked, of.Since, of.Phase, due, c.identity), Timeout: rewritingTimeout, Do: c.do,
	}
}

// do reports a problem until nothing is left, so that the prober repeats it sooner.
func (c *rewritingCheck) do(ctx context.Context) probe.Result {
	progress, err := c.rewriter.Run(ctx)
	if progress.Done {
		return c.judge(ctx, progress)
	}
	says := fmt.Sprintf("%d objects were written by the new key since the manager began", progress.Rewritten)
	if progress.Looked > 0 {
		says += fmt.Sprintf(", and %d values of etcd were looked at since", progress.Looked)
	}
	if err != nil {
		says += ": " + errortext.Steady(err)
	}
	return probe.Result{Problem: says, Value: progress}
}

// judge takes a whole pass that found nothing for a proof if every voter has all that the pass saw. After a voter lagged judge needs another
// pass, because that voter may have been away for days.
func (c *rewritingCheck) judge(ctx context.Context, progress rewriting.Progress) probe.Result {
	if lagging := c.lagging(ctx); len(lagging) > 0 {
		c.lagged = true
		return probe.Result{Problem: "a member of etcd may have former values: " + strings.Join(lagging, "; "), Value: rewriting.Progress{}}
	}
	if c.lagged {
		c.lagged = false
		c.rewriter = &rewriting.Rewriter{File: c.rewriter.File, Etcds: c.rewriter.Etcds, Connect: c.rewriter.Connect, Clock: c.rewriter.Clock}
		return c.do(ctx)
	}
	return probe.Result{Value: progress}
}

// lagging says which voters may lack what was written a while ago.
func (c *rewritingCheck) lagging(ctx context.Context) []string {
	var all []string
	for _, ask := range c.healths {
		health, err := ask(ctx)
		if err != nil {
			all = append(all, errortext.Steady(err))
			continue
		}
		all = append(all, health.Lagging()...)
	}
	return all
}
