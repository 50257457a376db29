package background

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

var _ source.Source = &Runner{}

// woken counts reconciles that were asked for.
type woken struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	count atomic.Int32
}

func (w *woken) Add(reconcile.Request) { w.count.Add(1) }

// inBubble runs a test with a started Runner in a bubble of its own time, and stops it at the end: the
// bubble fails the test when a goroutine is left.
func inBubble(t *testing.T, places int64, test func(t *testing.T, r *Runner, w *woken)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, w := New(places, time.Second), &woken{}
		if err := r.Start(ctx, w); err != nil {
			t.Fatal(err)
		}
		test(t, r, w)
	})
}

// after lets time pass, and everything that is due happen.
func after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // In the bubble of synctest it takes no time.
	synctest.Wait()
}

func key(name string) Key {
	return Key{types.NamespacedName{Namespace: "team", Name: name}, "work"}
}

func TestATaskThatIsOverIsDoneOnce(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *Runner, w *woken) {
		var done atomic.Int32
		task := Task{Identity: "a", Timeout: time.Minute, Do: func(context.Context) Outcome { done.Add(1); return Outcome{Text: "done"} }}
		if _, ok := r.Run(key("blue"), task); ok {
			t.Error("an outcome before it was done")
		}
		after(time.Hour)
		if outcome, ok := r.Run(key("blue"), task); !ok || outcome.Text != "done" {
			t.Errorf("%v, %t", outcome, ok)
		}
		after(time.Hour)
		if done.Load() != 1 || w.count.Load() != 1 {
			t.Errorf("done %d times, woken %d times", done.Load(), w.count.Load())
		}
	})
}

func TestOnlyAnotherOutcomeWakes(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *Runner, w *woken) {
		var text atomic.Value
		text.Store("starts")
		r.Run(key("blue"), Task{Timeout: time.Minute, Do: func(context.Context) Outcome {
			return Outcome{Text: text.Load().(string), Again: time.Second}
		}})
		for i, next := range []string{"runs", "ends"} {
			after(time.Minute)
			if got := int(w.count.Load()); got != i+1 {
				t.Errorf("woken %d times before %q", got, next)
			}
			text.Store(next)
		}
	})
}

// Two tasks on one host at the same time would undo each other's work.
func TestAnotherTaskWaitsForTheEndOfTheOneBefore(t *testing.T) {
	inBubble(t, 10, func(t *testing.T, r *Runner, _ *woken) {
		var under atomic.Int32
		slow := func(ctx context.Context) Outcome {
			if under.Add(1) > 1 {
				t.Error("two tasks at the same time")
			}
			<-ctx.Done()
			time.Sleep(5 * time.Second) //nolint:forbidigo // What takes long to end; in the bubble it takes no time.
			under.Add(-1)
			return Outcome{Text: "cut"}
		}
		for i := range 5 {
			r.Run(key("blue"), Task{Identity: strconv.Itoa(i), Timeout: time.Hour, Do: slow})
			after(time.Duration(i) * time.Second)
		}
		r.Forget(key("blue").Object)
		r.Run(key("blue"), Task{Identity: "last", Timeout: time.Hour, Do: slow})
		after(time.Minute)
		if under.Load() != 1 {
			t.Errorf("%d tasks are under way", under.Load())
		}
		r.Forget(key("blue").Object)
		after(time.Minute)
	})
}

func TestAnotherPromptStartsAnewAndKeepsTheOutcomeUntilThen(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *Runner, w *woken) {
		r.Run(key("blue"), Task{Prompt: "1 is ready", Timeout: time.Minute, Do: func(context.Context) Outcome { return Outcome{Text: "1"} }})
		synctest.Wait()
		second := Task{Prompt: "2 are ready", Timeout: time.Minute, Do: func(ctx context.Context) Outcome {
			<-ctx.Done()
			return Outcome{Text: "2"}
		}}
		r.Run(key("blue"), second)
		synctest.Wait()
		if outcome, ok := r.Run(key("blue"), second); !ok || outcome.Text != "1" {
			t.Errorf("%v, %t", outcome, ok)
		}
		after(time.Minute)
		if outcome, ok := r.Run(key("blue"), second); !ok || outcome.Text != "2" || w.count.Load() != 2 {
			t.Errorf("%v, %t; woken %d times", outcome, ok, w.count.Load())
		}
	})
}

func TestATaskThatTakesTooLongIsCut(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *Runner, _ *woken) {
		task := Task{Timeout: 10 * time.Second, Do: func(ctx context.Context) Outcome { <-ctx.Done(); return Outcome{Text: ctx.Err().Error()} }}
		r.Run(key("blue"), task)
		after(10 * time.Second)
		if outcome, ok := r.Run(key("blue"), task); !ok || outcome.Text != "context deadline exceeded" {
			t.Errorf("%v, %t", outcome, ok)
		}
	})
}

func TestHostsThatAreAwayDoNotHoldUpOthers(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *Runner, _ *woken) {
		for i := range 20 {
			r.Run(key("away-"+strconv.Itoa(i)), Task{Timeout: time.Minute, Do: func(ctx context.Context) Outcome { <-ctx.Done(); return Outcome{Again: time.Hour} }})
		}
		answered := time.Time{}
		start := time.Now()
		r.Run(key("healthy"), Task{Timeout: time.Minute, Do: func(context.Context) Outcome { answered = time.Now(); return Outcome{} }})
		after(2 * time.Minute)
		if took := answered.Sub(start); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAPanicIsAnOutcome(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *Runner, _ *woken) {
		task := Task{Timeout: time.Minute, Do: func(context.Context) Outcome { panic("no map") }}
		r.Run(key("blue"), task)
		synctest.Wait()
		if outcome, _ := r.Run(key("blue"), task); outcome.Text != "work panicked: no map" {
			t.Errorf("%v", outcome)
		}
	})
}

// Nothing ends the Runner here: the bubble fails the test when a goroutine outlives Forget.
func TestNothingIsLeftOfForgottenObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := New(3, time.Second), &woken{}
		if err := r.Start(context.Background(), w); err != nil { //nolint:usetesting // The test's context ends.
			t.Fatal(err)
		}
		for i := range 50 {
			name := strconv.Itoa(i)
			r.Run(key(name), Task{Timeout: time.Hour, Do: func(ctx context.Context) Outcome { <-ctx.Done(); return Outcome{} }})
			after(time.Duration(i) * 10 * time.Millisecond)
			r.Forget(key(name).Object)
		}
		synctest.Wait()
		if len(r.running)+len(r.ending) != 0 || !r.places.TryAcquire(3) {
			t.Errorf("%d run, %d end", len(r.running), len(r.ending))
		}
	})
}
