package background

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics/panicstest"
)

var _ source.Source = &Runner{}

// places begins a Runner of so many places.
func places(n int64) func() *Runner { return func() *Runner { return New(n, time.Second) } }

func key(name string) Key {
	return Key{types.NamespacedName{Namespace: "team", Name: name}, "work"}
}

func TestATaskThatIsOverIsDoneOnce(t *testing.T) {
	backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, w *backgroundtest.Woken) {
		var done atomic.Int32
		task := Task{Identity: "a", Timeout: time.Minute, Do: func(context.Context) Outcome { done.Add(1); return Outcome{Text: "done"} }}
		if _, ok := r.Run(key("blue"), task); ok {
			t.Error("an outcome before it was done")
		}
		backgroundtest.After(time.Hour)
		if outcome, ok := r.Run(key("blue"), task); !ok || outcome.Text != "done" {
			t.Errorf("%v, %t", outcome, ok)
		}
		backgroundtest.After(time.Hour)
		if done.Load() != 1 || w.Count() != 1 {
			t.Errorf("done %d times, woken %d times", done.Load(), w.Count())
		}
	})
}

func TestOnlyAnotherOutcomeWakes(t *testing.T) {
	backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, w *backgroundtest.Woken) {
		var text atomic.Value
		text.Store("starts")
		r.Run(key("blue"), Task{Timeout: time.Minute, Do: func(context.Context) Outcome {
			return Outcome{Text: text.Load().(string), Again: time.Second}
		}})
		for i, next := range []string{"runs", "ends"} {
			backgroundtest.After(time.Minute)
			if got := w.Count(); got != i+1 {
				t.Errorf("woken %d times before %q", got, next)
			}
			text.Store(next)
		}
	})
}

// Two tasks on one host at the same time would undo each other's work.
func TestAnotherTaskWaitsForTheEndOfTheOneBefore(t *testing.T) {
	backgroundtest.InBubble(t, places(10), func(t *testing.T, r *Runner, _ *backgroundtest.Woken) {
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
			backgroundtest.After(time.Duration(i) * time.Second)
		}
		r.Forget(key("blue").Object)
		r.Run(key("blue"), Task{Identity: "last", Timeout: time.Hour, Do: slow})
		backgroundtest.After(time.Minute)
		if under.Load() != 1 {
			t.Errorf("%d tasks are under way", under.Load())
		}
		r.Forget(key("blue").Object)
		backgroundtest.After(time.Minute)
	})
}

func TestAnotherPromptStartsAnewAndKeepsTheOutcomeUntilThen(t *testing.T) {
	backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, w *backgroundtest.Woken) {
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
		backgroundtest.After(time.Minute)
		if outcome, ok := r.Run(key("blue"), second); !ok || outcome.Text != "2" || w.Count() != 2 {
			t.Errorf("%v, %t; woken %d times", outcome, ok, w.Count())
		}
	})
}

func TestATaskThatTakesTooLongIsCut(t *testing.T) {
	backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, _ *backgroundtest.Woken) {
		task := Task{Timeout: 10 * time.Second, Do: func(ctx context.Context) Outcome { <-ctx.Done(); return Outcome{Text: ctx.Err().Error()} }}
		r.Run(key("blue"), task)
		backgroundtest.After(10 * time.Second)
		if outcome, ok := r.Run(key("blue"), task); !ok || outcome.Text != "context deadline exceeded" {
			t.Errorf("%v, %t", outcome, ok)
		}
	})
}

func TestHostsThatAreAwayDoNotHoldUpOthers(t *testing.T) {
	backgroundtest.InBubble(t, places(2), func(t *testing.T, r *Runner, _ *backgroundtest.Woken) {
		for i := range 20 {
			r.Run(key("away-"+strconv.Itoa(i)), Task{Timeout: time.Minute, Do: func(ctx context.Context) Outcome { <-ctx.Done(); return Outcome{Again: time.Hour} }})
		}
		answered := time.Time{}
		start := time.Now()
		r.Run(key("healthy"), Task{Timeout: time.Minute, Do: func(context.Context) Outcome { answered = time.Now(); return Outcome{} }})
		backgroundtest.After(2 * time.Minute)
		if took := answered.Sub(start); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAPanicIsTheSameOutcomeEachTimeAndWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, heard := panicstest.Listen(t.Context())
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r, w := New(1, time.Second), &backgroundtest.Woken{}
		if err := r.Start(ctx, w); err != nil {
			t.Fatal(err)
		}
		task := Task{Timeout: time.Minute, Do: func(context.Context) Outcome { panic(new(int)) }}
		for run := 1; run <= 3; run++ {
			r.Run(key("blue"), task)
			synctest.Wait()
			if outcome, _ := r.Run(key("blue"), task); outcome.Text != "task work panicked; the manager's log has the stack" || outcome.Value != nil {
				t.Errorf("%v", outcome)
			}
			logged := heard.Errors()
			if w.Count() != 1 || heard.Count() != run || len(logged) != run {
				t.Errorf("after %d panics it woke %d times, %d were counted and %d logged", run, w.Count(), heard.Count(), len(logged))
			}
			for _, line := range logged {
				if !strings.Contains(line, "runner_test.go") || !strings.Contains(line, "blue") {
					t.Errorf("it logged %s", line)
				}
			}
			backgroundtest.After(afterPanic + afterPanic/10)
		}
	})
}

// Nothing ends the Runner here: the bubble fails the test when a goroutine outlives Forget.
func TestNothingIsLeftOfForgottenObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := New(3, time.Second), &backgroundtest.Woken{}
		if err := r.Start(context.Background(), w); err != nil { //nolint:usetesting // The test's context ends.
			t.Fatal(err)
		}
		for i := range 50 {
			name := strconv.Itoa(i)
			r.Run(key(name), Task{Timeout: time.Hour, Do: func(ctx context.Context) Outcome { <-ctx.Done(); return Outcome{} }})
			backgroundtest.After(time.Duration(i) * 10 * time.Millisecond)
			r.Forget(key(name).Object)
		}
		synctest.Wait()
		if len(r.running)+len(r.ending) != 0 || !r.places.TryAcquire(3) {
			t.Errorf("%d run, %d end", len(r.running), len(r.ending))
		}
	})
}

func TestATaskThatIsWithdrawnEndsAlone(t *testing.T) {
	backgroundtest.InBubble(t, places(2), func(t *testing.T, r *Runner, _ *backgroundtest.Woken) {
		var done, others atomic.Int32
		counting := func(count *atomic.Int32) Task {
			return Task{Timeout: time.Minute, Do: func(context.Context) Outcome {
				count.Add(1)
				return Outcome{Text: "done", Again: time.Second}
			}}
		}
		other := Key{key("blue").Object, "other"}
		r.Run(key("blue"), counting(&done))
		r.Run(other, counting(&others))
		synctest.Wait()
		r.Withdraw(key("blue"))
		r.Withdraw(key("green"))
		backgroundtest.After(time.Minute)
		if done.Load() != 1 || others.Load() < 50 {
			t.Errorf("it was done %d times, another one of the object %d times", done.Load(), others.Load())
		}
		if _, ok := r.Run(key("blue"), counting(&done)); ok {
			t.Error("its outcome is still there")
		}
	})
}

func TestWhatLastsEndsWithItsIdentityAlone(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*Runner, Task)
		ends    bool
	}{
		"nothing happens":            {func(*Runner, Task) {}, false},
		"another prompt":             {func(r *Runner, next Task) { next.Prompt = "2 are ready"; r.Run(key("blue"), next) }, false},
		"another identity":           {func(r *Runner, next Task) { next.Identity = "b"; r.Run(key("blue"), next) }, true},
		"nothing is wanted any more": {func(r *Runner, _ Task) { r.Forget(key("blue").Object) }, true},
		"it is withdrawn":            {func(r *Runner, _ Task) { r.Withdraw(key("blue")) }, true},
		"another prompt, then nothing": {func(r *Runner, next Task) {
			next.Prompt = "2 are ready"
			r.Run(key("blue"), next)
			r.Forget(key("blue").Object)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			backgroundtest.InBubble(t, places(10), func(t *testing.T, r *Runner, _ *backgroundtest.Woken) {
				var under, done, cut atomic.Int32
				mayEnd := make(chan struct{})
				task := Task{Identity: "a", Prompt: "1 is ready", Timeout: time.Second, Do: func(ctx context.Context) Outcome {
					if under.Add(1) > 1 {
						t.Error("two tasks at the same time")
					}
					defer under.Add(-1)
					select {
					case <-Lasting(ctx).Done():
						cut.Add(1)
					case <-mayEnd:
					}
					done.Add(1)
					return Outcome{}
				}}
				r.Run(key("blue"), task)
				synctest.Wait()
				test.happens(r, task)
				backgroundtest.After(time.Minute)
				if got := cut.Load() > 0; got != test.ends {
					t.Errorf("it is cut: %t", got)
				}
				if !test.ends && done.Load() > 0 {
					t.Error("it ended by itself")
				}
				close(mayEnd)
				backgroundtest.After(time.Minute)
			})
		})
	}
}

func TestATaskThatTellsOfAProblemIsDoneAgainSooner(t *testing.T) {
	backoff := Backoff{First: time.Second, Most: 5 * time.Second}
	for i, step := range []struct {
		text string
		want time.Duration
	}{{"", 5 * time.Second}, {"away", time.Second}, {"away", 2 * time.Second}, {"refused", 4 * time.Second}, {"away", 5 * time.Second}, {"away", 5 * time.Second}, {"", 5 * time.Second}, {"away", time.Second}} {
		if got := backoff.After(step.text); got != step.want {
			t.Errorf("outcome %d, %q: it is done again after %s, want %s", i, step.text, got, step.want)
		}
	}
}

// A reconcile that hears of a bad outcome would write it, and take it back a moment later.
func TestASettledObjectIsNotCalledBadForItsFirstOutcomesAlone(t *testing.T) {
	for name, test := range map[string]struct {
		settled bool
		bad     int32
		again   time.Duration
		panics  bool
		// told is the first text that the reconcile hears, and runs is how many runs there were until then.
		told string
		runs int32
	}{
		"two are bad":               {settled: true, bad: 2, again: time.Second, told: "", runs: 3},
		"three are bad":             {settled: true, bad: 3, again: time.Second, told: "bad", runs: 3},
		"none is bad":               {settled: true, again: time.Second, told: "", runs: 1},
		"it is not settled":         {bad: 1, again: time.Second, told: "bad", runs: 1},
		"it does not run again":     {settled: true, bad: 1, told: "bad", runs: 1},
		"it panics, which is known": {settled: true, panics: true, told: "panicked", runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, w *backgroundtest.Woken) {
				var runs atomic.Int32
				task := Task{Settled: test.settled, Timeout: time.Minute, Do: func(context.Context) Outcome {
					n := runs.Add(1)
					if test.panics {
						panic("no") //nolint:forbidigo // What the test is about.
					}
					if n <= test.bad {
						return Outcome{Text: "bad", Again: test.again}
					}
					return Outcome{Again: time.Hour}
				}}
				told, ok := Outcome{}, false
				for range 100 {
					if told, ok = r.Run(key("blue"), task); ok {
						break
					}
					backgroundtest.After(100 * time.Millisecond)
				}
				if !ok || !strings.Contains(told.Text, test.told) || (told.Text == "") != (test.told == "") || runs.Load() != test.runs || w.Count() != 1 {
					t.Errorf("told is %q, %t, after %d runs; it was woken %d times", told.Text, ok, runs.Load(), w.Count())
				}
				r.Forget(key("blue").Object)
			})
		})
	}
}

func TestAnObjectThatWasWellOnceIsCalledBadAtOnce(t *testing.T) {
	backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, w *backgroundtest.Woken) {
		var text atomic.Value
		text.Store("")
		task := Task{Settled: true, Timeout: time.Minute, Do: func(context.Context) Outcome {
			return Outcome{Text: text.Load().(string), Again: time.Second}
		}}
		r.Run(key("blue"), task)
		synctest.Wait()
		text.Store("bad")
		backgroundtest.After(1100 * time.Millisecond)
		if told, _ := r.Run(key("blue"), task); told.Text != "bad" || w.Count() != 2 {
			t.Errorf("told is %q, it was woken %d times", told.Text, w.Count())
		}
	})
}

// Else a control plane whose pods come and go would never be called bad.
func TestAnotherPromptBringsNoNewDoubts(t *testing.T) {
	backgroundtest.InBubble(t, places(1), func(t *testing.T, r *Runner, _ *backgroundtest.Woken) {
		told := false
		for i := range mostDoubted + 2 {
			task := Task{Settled: true, Prompt: strconv.Itoa(i), Timeout: time.Minute, Do: func(context.Context) Outcome { return Outcome{Text: "bad", Again: time.Hour} }}
			_, told = r.Run(key("blue"), task)
			synctest.Wait()
		}
		if !told {
			t.Error("it is not called bad")
		}
	})
}
