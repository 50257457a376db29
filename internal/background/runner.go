// Package background runs work that takes longer than a reconcile may, such as work on hosts or probes of tenants. A
// reconcile hands over a task and gets its last outcome. A different outcome wakes the reconcile. Nobody waits.
//
// # Many tasks that hang
//
// A Runner has a number of places. Tasks take places in the order in which they came, and each keeps its place at most for
// the Runner's patience: a task that has not ended by then only waits for the network, and costs little. It goes on without
// a place until its Timeout. So tasks that hang never hold up others, and a slow link is no failure. At most
// places*(1+Timeout/patience) tasks run at any time. A task with k tasks before it begins after k/places*patience at the
// latest.
package background

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

const (
	// afterPanic is how soon a task that panicked runs again.
	afterPanic = time.Minute
	// mostDoubted is how many outcomes with a text do not count when a task of a settled object begins.
	mostDoubted = 2
)

// Key identifies a task: the object whose reconcile wants it, and its kind. An object has at most one task of a kind.
type Key struct {
	Object types.NamespacedName
	Kind   string
}

// Task is work that a reconcile wants done.
type Task struct {
	// Identity names the work and everything that it depends on. A task with another identity ends the running one, waits for
	// its end, and starts.
	Identity string
	// Prompt is something that the reconcile saw and that may change the outcome, such as a number of ready pods. Another
	// prompt starts the task anew like another identity, but the last outcome stays valid meanwhile. Work that Do does with
	// the context that Lasting returns is not cut off: the task starts anew when that work has ended.
	Prompt string
	// Timeout is how long Do may take.
	Timeout time.Duration
	// Settled is true for an object whose last status is kept until there is an outcome. Then the runner does not count the first two
	// outcomes with a text; it counts a third in a row, as kubelet's probes do by default. When very many tasks begin at once, as after a
	// restart, some exceed their time only because they wait for a processor.
	Settled bool
	// Do does the work. It must return soon after its context ended.
	Do func(ctx context.Context) Outcome
}

// Outcome is the result of a task.
type Outcome struct {
	// Text is for people. Outcomes with the same text count as the same: only a different text wakes the reconcile.
	Text string
	// Value is the result for programs.
	Value any
	// Again is after which time the task runs again; 0 for never.
	Again time.Duration
	// sure is true when an outcome counts without another run.
	sure bool
}

// Runner runs tasks. It is a source of the controller whose reconciles hand over tasks. When the controller stops, all tasks
// end.
type Runner struct {
	places   *semaphore.Weighted
	patience time.Duration

	lock    sync.Mutex
	ctx     context.Context //nolint:containedctx // The controller's life, which Start learns.
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	running map[Key]*running
	// ending are tasks that were told to end and have not ended yet.
	ending map[Key]*running
}

type running struct {
	key  Key
	task Task
	// lasting is the context of all tasks with one identity, and end ends it. stop ends this task alone.
	lasting   context.Context //nolint:containedctx // The life of an identity, which outlives each of its prompts.
	end, stop context.CancelFunc
	ended     chan struct{}
	outcome   *Outcome
	// doubted counts the outcomes before the first one that did not count.
	doubted int
}

// lastingKey finds the context of the identity in that of a task.
type lastingKey struct{}

// Lasting returns a context for what Do must not leave half done. Neither another prompt nor the timeout ends it. It ends when
// a reconcile wants another identity, or no task any more. It is ctx itself where no Runner runs the task.
func Lasting(ctx context.Context) context.Context {
	if lasting, ok := ctx.Value(lastingKey{}).(context.Context); ok {
		return lasting
	}
	return ctx
}

// New returns a Runner with that many places. A task keeps its place for patience at the most.
func New(places int64, patience time.Duration) *Runner {
	return &Runner{places: semaphore.NewWeighted(places), patience: patience, running: map[Key]*running{}, ending: map[Key]*running{}}
}

// Start makes different outcomes add their objects to the queue, until the context ends. The controller calls it before its
// first reconcile.
func (r *Runner) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.ctx, r.queue = ctx, queue
	return nil
}

// Run starts a task in place of any other with the same key. It returns the task's last outcome, or
// false before the first one, and never waits.
func (r *Runner) Run(key Key, task Task) (Outcome, bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.ctx == nil || r.ctx.Err() != nil {
		return Outcome{}, false
	}
	known := r.running[key]
	if known == nil || known.task.Identity != task.Identity || known.task.Prompt != task.Prompt {
		next := &running{key: key, task: task, ended: make(chan struct{})}
		if known != nil && known.task.Identity == task.Identity {
			next.outcome, next.doubted, next.lasting, next.end = known.outcome, known.doubted, known.lasting, known.end
			known.stop()
			r.ending[key] = known
		} else {
			r.end(key)
			next.lasting, next.end = context.WithCancel(r.ctx)
		}
		var ctx context.Context
		ctx, next.stop = context.WithCancel(context.WithValue(next.lasting, lastingKey{}, next.lasting))
		r.running[key], known = next, next
		go r.repeat(ctx, known, r.ending[key])
	}
	if known.outcome == nil {
		return Outcome{}, false
	}
	return *known.outcome, true
}

// Forget ends all tasks of an object and drops their outcomes.
func (r *Runner) Forget(object types.NamespacedName) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for key := range r.running {
		if key.Object == object {
			r.end(key)
		}
	}
}

// Withdraw ends one task and drops its outcome.
func (r *Runner) Withdraw(key Key) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.end(key)
}

// end tells a task to end, with all before it that have its identity; the caller holds the lock.
func (r *Runner) end(key Key) {
	if known := r.running[key]; known != nil {
		known.end()
		delete(r.running, key)
		r.ending[key] = known
	}
}

func (r *Runner) repeat(ctx context.Context, self, before *running) {
	defer func() {
		self.stop()
		close(self.ended)
		r.lock.Lock()
		defer r.lock.Unlock()
		if r.ending[self.key] == self {
			delete(r.ending, self.key)
		}
	}()
	if before != nil {
		<-before.ended
	}
	for {
		outcome, ok := r.once(ctx, self)
		if !ok {
			return
		}
		r.record(self, outcome)
		if outcome.Again == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		// Jitter keeps tasks that began together from running together for ever.
		case <-time.After(outcome.Again + rand.N(outcome.Again/10+1)):
		}
	}
}

// once waits for a place and runs the task once; false when it was told to end meanwhile.
func (r *Runner) once(ctx context.Context, self *running) (Outcome, bool) {
	if err := r.places.Acquire(ctx, 1); err != nil {
		return Outcome{}, false
	}
	leave := sync.OnceFunc(func() { r.places.Release(1) })
	defer leave()
	defer time.AfterFunc(r.patience, leave).Stop()

	bounded, cancel := context.WithTimeout(ctx, self.task.Timeout)
	defer cancel()
	outcome := self.do(bounded)
	return outcome, ctx.Err() == nil
}

// do runs the task once. A panic becomes an outcome.
func (s *running) do(ctx context.Context) Outcome {
	outcome, err := s.try(ctx)
	if err != nil {
		return Outcome{Text: err.Error(), Again: afterPanic, sure: true}
	}
	return outcome
}

func (s *running) try(ctx context.Context) (outcome Outcome, err error) {
	logged := ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("object", s.key.Object))
	defer panics.Recover(logged, "task "+s.key.Kind, &err)
	return s.task.Do(ctx), nil
}

// record keeps an outcome, and wakes the reconcile when it differs from the one before.
func (r *Runner) record(self *running, outcome Outcome) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.running[self.key] != self || self.doubt(outcome) {
		return
	}
	changed := self.outcome == nil || self.outcome.Text != outcome.Text
	self.outcome = &outcome
	if changed {
		r.queue.Add(reconcile.Request{NamespacedName: self.key.Object})
	}
}

// doubt reports whether an outcome does not count yet, and adds it to those that did not. The caller holds the lock.
func (s *running) doubt(outcome Outcome) bool {
	if !s.task.Settled || s.outcome != nil || outcome.Text == "" || outcome.sure || outcome.Again == 0 || s.doubted == mostDoubted {
		return false
	}
	s.doubted++
	return true
}
