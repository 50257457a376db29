package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hashes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

const (
	// Places is how many runs are in their first moments at the same time.
	Places = 64
	// Patience is how long a run keeps its place.
	Patience = 500 * time.Millisecond
	// Interval is how often a cluster is observed of which all is well.
	Interval = time.Minute
	// FirstRetry is how soon the next run comes after the first one that found something to do.
	FirstRetry = 250 * time.Millisecond

	// HashInterval is how often the data of members is compared at the most. It is longer than API servers wait between two
	// compactions, so that two comparisons have different ones.
	HashInterval = 10 * time.Minute
	// hashSize is the size of a database from which on it is compared less often.
	hashSize = 256 << 20

	// runTimeout bounds a run besides its step: two observations of an etcd that half answers, and what is read between; or one,
	// and the hashes of as many members as there are at the most.
	runTimeout = 8 * etcd.Timeout
	// stepTimeout bounds a step: a change of the members, or a few writes to the host cluster. A step that makes room has
	// etcd.RoomTimeout.
	stepTimeout = 2 * etcd.Timeout
)

// Etcd is how etcd clusters are reached: Check is etcd.Check, Change is etcd.Change, MakeRoom is etcd.MakeRoom, Hashes is etcd.Hashes,
// and EachValue is etcd.EachValue, unless a test has none.
type Etcd struct {
	Check  func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error)
	Change func(ctx context.Context, kind membership.Kind, name string, health *etcd.Health, members map[string]etcd.Address, config *tls.Config) error
	// MakeRoom takes minutes where a database is large.
	MakeRoom func(ctx context.Context, action space.Action, members map[string]etcd.Address, config *tls.Config) error
	// Hashes is asked every HashEvery, which is HashInterval where it is zero. Without it the data of members is never compared.
	Hashes    func(ctx context.Context, health *etcd.Health, members map[string]etcd.Address, config *tls.Config) ([]hashes.Hash, error)
	HashEvery time.Duration
	// EachValue reads what API servers stored. The operator does not call it: the rotation of encryption keys does.
	EachValue func(ctx context.Context, members map[string]etcd.Address, config *tls.Config, from string, do func(key string, value []byte) (more bool)) (next string, err error)
	// DefragmentEvery is how long a member runs before it starts anew because its database has many free pages: a day where it is zero.
	DefragmentEvery time.Duration
}

// defragmentEvery is that of Etcd, or a day.
func (o *Operator) defragmentEvery() time.Duration {
	return cmp.Or(o.etcd.DefragmentEvery, 24*time.Hour)
}

// Operator looks after etcd clusters. It is a source of the controller whose objects have them.
type Operator struct {
	etcd     Etcd
	clock    clock.PassiveClock
	recorder events.EventRecorder
	runner   *background.Runner
	// rewritten is when files of members were written anew.
	rewritten rewritten
	compared  *comparisons
	quiets    *quiets
}

// New returns an Operator that does nothing before it is started.
func New(etcd Etcd, clock clock.PassiveClock, recorder events.EventRecorder) *Operator {
	return &Operator{etcd: etcd, clock: clock, recorder: recorder, runner: background.New(Places, Patience), compared: newComparisons(), quiets: newQuiets()}
}

// Start lets reports that differ from the one before reconcile their control planes through the queue, until the
// context ends. A controller calls it before its first reconcile.
func (o *Operator) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return o.runner.Start(ctx, queue)
}

// Report is what the last run found and did.
type Report struct {
	// Health is how the cluster is, after the step if there was one.
	*etcd.Health
	// Recovery is what was done, or must happen first, to replace a member that is lost; empty when none is.
	Recovery string
	// NeedsDecision is true when a person has to do what Recovery says. FactsMissing is true when it is not known whether a member is lost;
	// Recovery says why.
	NeedsDecision, FactsMissing bool
	// Space is what was done, or must happen first, to have a full etcd take writes again; empty when it takes them.
	Space string
	// Change is what was done, or must happen first, to change the members; empty when they are as desired.
	Change string
	// Rollout is what was done, or must happen first, to replace a pod that is not up to date; empty when all are.
	Rollout string
	// Lead is why the lead stays on a node that is cordoned; empty when it does not.
	Lead string
}

// Operate starts to look after a cluster, or goes on with another task. It returns the last report, and false before the
// first one. It never waits.
func (o *Operator) Operate(task *Task) (*Report, bool) {
	backoff := background.Backoff{First: FirstRetry, Most: Interval}
	outcome, ok := o.runner.Run(task.key(), background.Task{
		Identity: task.Identity(), Prompt: task.Prompt(), Timeout: runTimeout, Settled: task.Settled,
		Do: func(ctx context.Context) background.Outcome {
			report := o.Run(ctx, task)
			text := report.text()
			return background.Outcome{Text: text, Value: report, Again: backoff.After(text)}
		},
	})
	if !ok {
		return nil, false
	}
	if report, ok := outcome.Value.(*Report); ok {
		return report, true
	}
	return &Report{Health: &etcd.Health{Err: errors.New(outcome.Text)}}, true // The run panicked.
}

// Forget ends all that is done for a control plane, and drops its reports.
func (o *Operator) Forget(controlPlane client.ObjectKey) {
	o.runner.Forget(controlPlane)
	o.rewritten.forget(controlPlane)
	o.compared.forget(controlPlane)
	o.quiets.forget(controlPlane)
}

// text is all of a report that is for people. A report with another text reconciles the control plane.
func (r *Report) text() string {
	lines := r.Problems()
	for _, line := range []string{r.Recovery, r.Space, r.Change, r.Rollout, r.Lead} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return errortext.SteadyText(strings.Join(lines, "\n"))
}
