package probe

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

const (
	// Places is how many probes are in their first moments at the same time.
	Places = 64
	// Patience is how long a probe keeps its place.
	Patience = 500 * time.Millisecond
	// Timeout is when a probe without a result is given up, unless it says otherwise.
	Timeout = 5 * time.Second
	// Interval is how often a probe runs whose last result was good.
	Interval = time.Minute
	// FirstRetry is how soon a probe runs again after its first bad result.
	FirstRetry = 250 * time.Millisecond
)

// Key names a probe: the object whose reconcile wants it, and its kind, of which the object has one each.
type Key = background.Key

// Probe is what a reconcile wants to know of a tenant.
type Probe struct {
	// Identity names what is probed and where. A result holds only for the same identity.
	Identity string
	// Prompt is what the reconcile saw that may change the result, such as a number of ready pods.
	// When it changes the probe runs at once; the last result holds until then.
	Prompt string
	// Timeout is when a probe without a result is given up; the constant Timeout if zero.
	Timeout time.Duration
	// Settled is passed on to background.Task: the first bad results about a settled object do not count.
	Settled bool
	// Do probes. It is never called twice at the same time for one key, and returns soon after its
	// context ended.
	Do func(ctx context.Context) Result
}

// Result is what came of a probe.
type Result struct {
	// Problem says what is wrong, for people; empty when nothing is. Two results with the same problem
	// are the same.
	Problem string
	// Value is what else was learnt; nil after a panic. A change of it alone wakes no reconcile.
	Value any
}

// Prober probes in the background. It is a source of the controller whose objects are probed for: their probes end with
// Forget or Withdraw, and all of them when the controller stops.
type Prober struct {
	runner *background.Runner
}

// New returns a Prober that probes nothing before it is started.
func New() *Prober { return &Prober{background.New(Places, Patience)} }

// Start lets changed results reconcile their objects through the queue, until the context ends. A
// controller calls it before its first reconcile.
func (p *Prober) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return p.runner.Start(ctx, queue)
}

// Probe starts to probe regularly, in place of any other probe with the same key. It returns the last result, or false
// before the first one, and never waits.
func (p *Prober) Probe(key Key, probe Probe) (Result, bool) {
	outcome, ok := p.runner.Run(key, background.Task{
		Identity: probe.Identity, Prompt: probe.Prompt,
		Timeout: cmp.Or(probe.Timeout, Timeout), Settled: probe.Settled, Do: probe.repeated(key),
	})
	return Result{Problem: outcome.Text, Value: outcome.Value}, ok
}

// Forget ends all probes of an object and drops their results.
func (p *Prober) Forget(object types.NamespacedName) { p.runner.Forget(object) }

// Withdraw ends one probe and drops its result.
func (p *Prober) Withdraw(key Key) { p.runner.Withdraw(key) }

// repeated probes, and says when to probe again. What is logged meanwhile names the object.
func (p Probe) repeated(key Key) func(context.Context) background.Outcome {
	backoff := background.Backoff{First: FirstRetry, Most: Interval}
	return func(ctx context.Context) background.Outcome {
		named := ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("for", key.Object.String()))
		result := p.Do(writes.Because(named, key.Kind))
		text := errortext.SteadyText(result.Problem)
		return background.Outcome{Text: text, Value: result.Value, Again: backoff.After(text)}
	}
}
