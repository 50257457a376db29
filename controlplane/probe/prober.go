package probe

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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
type Key struct {
	Object types.NamespacedName
	Kind   string
}

// Question is what a reconcile wants to know.
type Question struct {
	// Identity is what is asked, and whom: an answer holds for it alone.
	Identity string
	// Prompt is what the reconcile saw that may change the answer, such as a number of ready pods.
	// When it changes the question is asked at once; what was answered before holds until then.
	Prompt string
	// Timeout is when an unanswered question is given up; the constant Timeout if zero.
	Timeout time.Duration
	// Ask asks. It is never called twice at the same time for one Question, and returns soon after its
	// context ended.
	Ask func(ctx context.Context) Answer
}

// Answer is what came of a question.
type Answer struct {
	// Problem says what is wrong, for people; empty when nothing is. Two answers with the same problem
	// are the same answer.
	Problem string
	// Value is what else was learnt. A change of it alone reconciles nobody.
	Value any
}

// Prober asks questions in the background. It is a source of the controller whose objects ask: what
// they asked is forgotten with Forget, and all of it when the controller stops.
type Prober struct {
	places *semaphore.Weighted

	lock   sync.Mutex
	ctx    context.Context //nolint:containedctx // The controller's life, which Start learns.
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	askers map[Key]*asker
}

// asker repeats one question until it is stopped.
type asker struct {
	key      Key
	question Question
	stop     context.CancelFunc
	// answer is nil until there is one.
	answer *Answer
}

// New returns a Prober that asks nothing before it is started.
func New() *Prober {
	return &Prober{places: semaphore.NewWeighted(Places), askers: map[Key]*asker{}}
}

// Start lets changed answers reconcile their objects through the queue, until the context ends. A
// controller calls it before its first reconcile.
func (p *Prober) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.ctx, p.queue = ctx, queue
	return nil
}

// Ask has the question asked from now on, in place of any other with the same key, and returns the
// last answer to it; false when there is none yet. It never waits for one.
func (p *Prober) Ask(key Key, question Question) (Answer, bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil {
		return Answer{}, false
	}
	known := p.askers[key]
	if known == nil || known.question.Identity != question.Identity || known.question.Prompt != question.Prompt {
		next := &asker{key: key, question: question}
		if known != nil {
			known.stop()
			if known.question.Identity == question.Identity {
				next.answer = known.answer
			}
		}
		ctx, cancel := context.WithCancel(p.ctx)
		next.stop = cancel
		p.askers[key], known = next, next
		go p.repeat(ctx, next)
	}
	if known.answer == nil {
		return Answer{}, false
	}
	return *known.answer, true
}

// Forget stops all questions of an object and drops their answers.
func (p *Prober) Forget(object types.NamespacedName) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for key, known := range p.askers {
		if key.Object == object {
			known.stop()
			delete(p.askers, key)
		}
	}
}

func (p *Prober) repeat(ctx context.Context, a *asker) {
	retry := FirstRetry
	for {
		answer, ok := p.once(ctx, a)
		if !ok {
			return
		}
		p.record(a, answer)
		pause := Interval
		if answer.Problem != "" {
			pause, retry = retry, min(2*retry, Interval)
		} else {
			retry = FirstRetry
		}
		select {
		case <-ctx.Done():
			return
		// Tenants that began together must not be asked together for ever.
		case <-time.After(pause + rand.N(pause/10)):
		}
	}
}

// once asks when there is a place; false when the asker was stopped in the meantime.
func (p *Prober) once(ctx context.Context, a *asker) (Answer, bool) {
	if err := p.places.Acquire(ctx, 1); err != nil {
		return Answer{}, false
	}
	leave := sync.OnceFunc(func() { p.places.Release(1) })
	defer leave()
	defer time.AfterFunc(Patience, leave).Stop()

	bounded, cancel := context.WithTimeout(ctx, cmp.Or(a.question.Timeout, Timeout))
	defer cancel()
	answer := a.ask(bounded)
	return answer, ctx.Err() == nil
}

// ask turns a panic into an answer, as controllers do with those of a reconcile.
func (a *asker) ask(ctx context.Context) (answer Answer) {
	defer func() {
		if cause := recover(); cause != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", cause), "Ask a question",
				"question", a.key.Kind, "object", a.key.Object, "stack", string(debug.Stack()))
			answer = Answer{Problem: fmt.Sprintf("asking %s panicked: %v", a.key.Kind, cause)}
		}
	}()
	answer = a.question.Ask(ctx)
	answer.Problem = localAddress.ReplaceAllString(answer.Problem, "")
	return answer
}

// localAddress is what errors of package net say of this end of a connection, such as 10.0.0.1:40000->. It
// is another one each time: without it the same problem is the same answer.
var localAddress = regexp.MustCompile(`\S+->`)

// record keeps an answer, and reconciles the object when it is another than before.
func (p *Prober) record(a *asker, answer Answer) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.askers[a.key] != a {
		return
	}
	changed := a.answer == nil || a.answer.Problem != answer.Problem
	a.answer = &answer
	if changed {
		p.queue.Add(reconcile.Request{NamespacedName: a.key.Object})
	}
}
