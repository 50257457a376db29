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
	// Places is how many questions are in their first moments at the same time.
	Places = 64
	// Patience is how long a question keeps its place.
	Patience = 500 * time.Millisecond
	// Timeout is when a question that is not answered is given up, unless it says otherwise.
	Timeout = 5 * time.Second
	// Interval is how often a question is asked whose last answer was good.
	Interval = time.Minute
	// FirstRetry is how soon a question is asked again after its first bad answer.
	FirstRetry = 250 * time.Millisecond
)

// Key names a question: the object whose reconcile asks it, and its kind, of which the object has
// one each.
type Key = background.Key

// Question is what a reconcile wants to know.
type Question struct {
	// Identity names what is asked and the place that is asked. An answer holds only for the same
	// identity.
	Identity string
	// Prompt is what the reconcile saw that may change the answer, such as a number of ready pods.
	// When it changes the question is asked at once; what was answered before holds until then.
	Prompt string
	// Timeout is when an unanswered question is given up; the constant Timeout if zero.
	Timeout time.Duration
	// Ask asks. It is never called twice at the same time for one key, and returns soon after its
	// context ended.
	Ask func(ctx context.Context) Answer
}

// Answer is what came of a question.
type Answer struct {
	// Problem says what is wrong, for people; empty when nothing is. Two answers with the same problem
	// are the same answer.
	Problem string
	// Value is what else was learnt; nil after a panic. A change of it alone wakes no reconcile.
	Value any
}

// Prober asks questions in the background. It is a source of the controller whose objects ask: what
// they asked is forgotten with Forget or Withdraw, and all of it when the controller stops.
type Prober struct {
	runner *background.Runner
}

// New returns a Prober that asks nothing before it is started.
func New() *Prober { return &Prober{background.New(Places, Patience)} }

// Start lets changed answers reconcile their objects through the queue, until the context ends. A
// controller calls it before its first reconcile.
func (p *Prober) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return p.runner.Start(ctx, queue)
}

// Ask starts to ask the question regularly, in place of any other with the same key. It returns the
// last answer, or false before the first one, and never waits.
func (p *Prober) Ask(key Key, question Question) (Answer, bool) {
	outcome, ok := p.runner.Run(key, background.Task{
		Identity: question.Identity, Prompt: question.Prompt,
		Timeout: cmp.Or(question.Timeout, Timeout), Do: question.repeated(key),
	})
	return Answer{Problem: outcome.Text, Value: outcome.Value}, ok
}

// Forget stops all questions of an object and drops their answers.
func (p *Prober) Forget(object types.NamespacedName) { p.runner.Forget(object) }

// Withdraw stops one question and drops its answer.
func (p *Prober) Withdraw(key Key) { p.runner.Withdraw(key) }

// repeated asks, and says when it is asked again. What is logged meanwhile names the question.
func (q Question) repeated(key Key) func(context.Context) background.Outcome {
	backoff := background.Backoff{First: FirstRetry, Most: Interval}
	return func(ctx context.Context) background.Outcome {
		named := ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("for", key.Object.String()))
		answer := q.Ask(writes.Because(named, key.Kind))
		text := errortext.SteadyText(answer.Problem)
		return background.Outcome{Text: text, Value: answer.Value, Again: backoff.After(text)}
	}
}
