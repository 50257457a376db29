// Package background runs what takes long, such as work on hosts, while reconciles go on. A reconcile
// says what it wants done and gets the last outcome; another outcome wakes it. Nobody waits.
package background

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// patience is how long a task keeps its place: hosts that are away must not keep others waiting.
const patience = time.Second

// Key names a task: the object whose reconcile wants it, and its kind, of which the object has one each.
type Key struct {
	Object types.NamespacedName
	Kind   string
}

// Task is what a reconcile wants done.
type Task struct {
	// Identity is what is to be done with what. Another identity ends the task that is under way, waits
	// for its end, and starts anew.
	Identity string
	// Timeout is how long Do may take.
	Timeout time.Duration
	// Do does it, and returns soon after its context ended.
	Do func(ctx context.Context) Outcome
}

// Outcome is what came of a task.
type Outcome struct {
	// Text is for people. Two outcomes with the same text are the same: only another one wakes.
	Text string
	// Value is what came of it for programs.
	Value any
	// Again is when it is done again; never for 0.
	Again time.Duration
}

// Runner runs tasks. It is a source of the controller whose objects want them; when that stops, all
// tasks end.
type Runner struct {
	places *semaphore.Weighted

	lock    sync.Mutex
	ctx     context.Context //nolint:containedctx // The controller's life, which Start learns.
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	running map[Key]*running
	// ending are tasks that were told to end, until they did.
	ending map[Key]*running
}

type running struct {
	key     Key
	task    Task
	stop    context.CancelFunc
	ended   chan struct{}
	outcome *Outcome
}

// New returns a Runner with that many places for tasks in their first moments.
func New(places int64) *Runner {
	return &Runner{places: semaphore.NewWeighted(places), running: map[Key]*running{}, ending: map[Key]*running{}}
}

// Start lets other outcomes reconcile their objects through the queue, until the context ends. A
// controller calls it before its first reconcile.
func (r *Runner) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.ctx, r.queue = ctx, queue
	return nil
}

// Run has a task done, in place of any other with the same key, and returns its last outcome; false
// when there is none yet. It never waits for one.
func (r *Runner) Run(key Key, task Task) (Outcome, bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.ctx == nil || r.ctx.Err() != nil {
		return Outcome{}, false
	}
	known := r.running[key]
	if known == nil || known.task.Identity != task.Identity {
		r.end(key)
		ctx, cancel := context.WithCancel(r.ctx)
		known = &running{key: key, task: task, stop: cancel, ended: make(chan struct{})}
		r.running[key] = known
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

// end tells a task to end; the caller holds the lock.
func (r *Runner) end(key Key) {
	if known := r.running[key]; known != nil {
		known.stop()
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
		// Tasks that began together must not be done together for ever.
		case <-time.After(outcome.Again + rand.N(outcome.Again/10+1)):
		}
	}
}

// once does a task when there is a place; false when it was told to end in the meantime.
func (r *Runner) once(ctx context.Context, self *running) (Outcome, bool) {
	if err := r.places.Acquire(ctx, 1); err != nil {
		return Outcome{}, false
	}
	leave := sync.OnceFunc(func() { r.places.Release(1) })
	defer leave()
	defer time.AfterFunc(patience, leave).Stop()

	bounded, cancel := context.WithTimeout(ctx, self.task.Timeout)
	defer cancel()
	outcome := self.do(bounded)
	return outcome, ctx.Err() == nil
}

// do turns a panic into an outcome, as controllers do with those of a reconcile.
func (s *running) do(ctx context.Context) (outcome Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", cause), "Run a task",
				"task", s.key.Kind, "object", s.key.Object, "stack", string(debug.Stack()))
			outcome = Outcome{Text: fmt.Sprintf("%s panicked: %v", s.key.Kind, cause), Again: time.Minute}
		}
	}()
	return s.task.Do(ctx)
}

// record keeps an outcome, and reconciles the object when it is another than before.
func (r *Runner) record(self *running, outcome Outcome) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.running[self.key] != self {
		return
	}
	changed := self.outcome == nil || self.outcome.Text != outcome.Text
	self.outcome = &outcome
	if changed {
		r.queue.Add(reconcile.Request{NamespacedName: self.key.Object})
	}
}
