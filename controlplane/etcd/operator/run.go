package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// cluster is one etcd cluster in one run.
type cluster struct {
	*Task
	operator *Operator
	log      logr.Logger
	members  map[string]etcd.Address
	tls      *tls.Config
}

// decision is what a decider says: a step to take now, or what must happen first. Both are empty when there is
// nothing to do.
type decision struct {
	// act takes the step, and says for people what it did.
	act func(context.Context) (did string, err error)
	// within bounds the step; stepTimeout does where it is zero.
	within time.Duration
	// waitsFor is what must happen first, for people.
	waitsFor string
}

// decider reads what a decision depends on, and decides. It writes nothing.
type decider func(context.Context, *etcd.Health) (decision, error)

// Run observes a cluster, takes at most one step, and observes again after it. [Operator.Operate] has it called in the
// background.
func (o *Operator) Run(ctx context.Context, task *Task) *Report {
	c := o.cluster(ctx, task)
	var err error
	if _, c.tls, err = task.Reach(o.clock); err != nil {
		return &Report{Health: &etcd.Health{Err: err}}
	}
	report := &Report{Health: c.observe(ctx)}
	c.compare(ctx, report.Health)
	acted, blank := c.recoverMembers(ctx, report)
	if c.Bootstrapped && report.Err == nil && !acted && !c.membersAsDesired(report.Health) {
		acted, report.Change = c.step(ctx, report.Health, func(ctx context.Context, health *etcd.Health) (decision, error) {
			return c.decideMembers(ctx, health, blank, report.FactsMissing)
		})
	}
	if c.Bootstrapped && report.Err == nil && report.Full && !acted {
		acted, report.Space = c.step(ctx, report.Health, c.decideSpace)
	}
	if (c.RollingOut || len(c.fragmented(report.Health, nil)) > 0) && !acted {
		acted, report.Rollout = c.step(ctx, report.Health, c.decideRollout)
	}
	if acted && ctx.Err() == nil { // A step may outlast the run: the next one observes.
		report.Health = c.observe(ctx)
	}
	if len(c.Cordoned) > 0 {
		c.prepareDrain(ctx, report, acted)
	}
	c.log.V(4).Info("Observed etcd", "problems", report.Problems(), "recovery", report.Recovery, "space", report.Space, "change", report.Change, "rollout", report.Rollout, "lead", report.Lead)
	return report
}

func (o *Operator) cluster(ctx context.Context, task *Task) *cluster {
	log := ctrl.LoggerFrom(ctx).WithValues("object", task.key().Object, "component", task.Cluster.Component)
	return &cluster{Task: task, operator: o, log: log, members: task.addresses()}
}

// observe reads how etcd is, and writes nothing. Once etcd is bootstrapped or seeded, a member that etcd does not list counts as
// missing only if spec asks for it and it should have a pod now.
func (c *cluster) observe(ctx context.Context) *etcd.Health {
	health, err := c.operator.etcd.Check(ctx, c.members, c.tls)
	if err != nil {
		return &etcd.Health{Err: err}
	}
	if (c.Bootstrapped || c.Seeded) && health.Err == nil {
		health.Members = slices.DeleteFunc(health.Members, func(m etcd.Member) bool {
			return !m.Listed && c.ordinal(m.Name) >= min(c.desiredMembers(), c.PodsEnd)
		})
	}
	c.operator.compared.tell(c.key(), health)
	return health
}

// step decides, and takes the step if there is one. It says for people what was done, or what must happen first.
func (c *cluster) step(ctx context.Context, health *etcd.Health, decide decider) (acted bool, says string) {
	decided, err := decide(ctx, health)
	switch {
	case err != nil:
		return false, errortext.Steady(err)
	case decided.act == nil:
		return false, decided.waitsFor
	case ctx.Err() != nil:
		return false, errortext.Steady(ctx.Err()) // A reconcile has seen something new, or time is over: the next run decides.
	}
	lasting, cancel := lasting(ctx, cmp.Or(decided.within, stepTimeout))
	defer cancel()
	did, err := decided.act(lasting)
	if err != nil {
		return false, errortext.Steady(err)
	}
	return true, did
}

// lasting is the context of writes: they are not left half done because a reconcile has seen something new.
func lasting(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(background.Lasting(ctx), within)
}
