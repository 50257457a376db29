package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics/panicstest"
)

var errBroken = errors.New("broken")

// journal notes which steps began and ended.
type journal struct {
	lock  sync.Mutex
	notes []string
}

func (j *journal) note(note string) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.notes = append(j.notes, note)
}

// step is one that takes a second of the test's clock and ends as told.
func step(name string, after []string, result Result) Step[*journal] {
	return Step[*journal]{Name: name, After: after, Run: func(_ context.Context, j *journal) Result {
		j.note("+" + name)
		<-time.After(time.Second)
		j.note("-" + name)
		return result
	}}
}

func finishes(name string, after ...string) Step[*journal] { return step(name, after, Done()) }

func ignore(string, time.Duration) {}

func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		steps []Step[*journal]
		// states are "done", "skipped", "waiting" or "failed", by the order of the steps.
		states []string
		// seconds that the whole run takes, when each step takes one.
		seconds int
		// order are pairs of notes of which the first must come before the second.
		order [][2]string
	}{
		"nothing to do": {},
		"one after the other": {
			steps:  []Step[*journal]{finishes("a"), finishes("b", "a"), finishes("c", "b")},
			states: []string{"done", "done", "done"}, seconds: 3,
			order: [][2]string{{"-a", "+b"}, {"-b", "+c"}},
		},
		"independent steps run together": {
			steps:  []Step[*journal]{finishes("a"), finishes("b"), finishes("c"), finishes("d", "a", "b", "c")},
			states: []string{"done", "done", "done", "done"}, seconds: 2,
			order: [][2]string{{"-a", "+d"}, {"-b", "+d"}, {"-c", "+d"}},
		},
		"a branch does not wait for the other": {
			steps:  []Step[*journal]{finishes("a"), finishes("b"), finishes("c", "b"), finishes("d", "c"), finishes("e", "a")},
			states: []string{"done", "done", "done", "done", "done"}, seconds: 3,
			order: [][2]string{{"-b", "+c"}, {"-a", "+e"}, {"+e", "-c"}},
		},
		"a waiting step stops those after it and no other": {
			steps:  []Step[*journal]{step("a", nil, Waiting("for the moon")), finishes("b", "a"), finishes("c", "b"), finishes("d")},
			states: []string{"waiting", "skipped", "skipped", "done"}, seconds: 1,
		},
		"a failed step stops those after it and no other": {
			steps:  []Step[*journal]{step("a", nil, Failed(errBroken)), finishes("b", "a"), finishes("c", "b"), finishes("d")},
			states: []string{"failed", "skipped", "skipped", "done"}, seconds: 1,
		},
		"one of two that are not done is enough to stop": {
			steps:  []Step[*journal]{finishes("a"), step("b", nil, Waiting("for the moon")), finishes("c", "a", "b")},
			states: []string{"done", "waiting", "skipped"}, seconds: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				start := time.Now()
				outcomes := New(ignore, test.steps...).Run(t.Context(), j)
				if took := int(time.Since(start).Seconds()); took != test.seconds {
					t.Errorf("took %d s, want %d", took, test.seconds)
				}
				if len(outcomes) != len(test.steps) {
					t.Fatalf("got %d outcomes, want %d", len(outcomes), len(test.steps))
				}
				for i, outcome := range outcomes {
					if outcome.Name != test.steps[i].Name {
						t.Errorf("outcome %d is of %s, want %s", i, outcome.Name, test.steps[i].Name)
					}
					if got := state(outcome); got != test.states[i] {
						t.Errorf("%s is %s, want %s", outcome.Name, got, test.states[i])
					}
					if ran := slices.Contains(j.notes, "+"+outcome.Name); ran != outcome.Ran {
						t.Errorf("%s ran %t, its outcome says %t", outcome.Name, ran, outcome.Ran)
					}
				}
				for _, pair := range test.order {
					if slices.Index(j.notes, pair[0]) > slices.Index(j.notes, pair[1]) {
						t.Errorf("%s is not before %s in %v", pair[0], pair[1], j.notes)
					}
				}
			})
		})
	}
}

func state(o Outcome) string {
	switch {
	case o.Done():
		return "done"
	case !o.Ran:
		return "skipped"
	case o.Err() != nil:
		return "failed"
	}
	return "waiting"
}

// keeping is a step that notes when it keeps up what it made.
func keeping(inner Step[*journal], result Result) Step[*journal] {
	inner.Keep = func(_ context.Context, j *journal) Result {
		j.note("=" + inner.Name)
		return result
	}
	return inner
}

func TestAStepThatCannotGoOnKeepsUpWhatItMade(t *testing.T) {
	for name, before := range map[string]Step[*journal]{
		"one before it waits": step("before", nil, Waiting("for the moon")), "one before it failed": step("before", nil, Failed(errBroken)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				outcomes := New(ignore, keeping(before, Done()), keeping(finishes("slow"), Done()), finishes("slower", "slow"),
					keeping(finishes("blocked", "before", "slower"), Done()), keeping(finishes("fails", "before"), Failed(errBroken)),
					finishes("plain", "blocked"), keeping(finishes("later", "plain"), Done()), keeping(finishes("free", "slow"), Done()),
				).Run(t.Context(), j)
				kept := []string{}
				for _, outcome := range outcomes {
					if slices.Contains(j.notes, "="+outcome.Name) {
						kept = append(kept, outcome.Name)
						if outcome.Ran || outcome.Done() {
							t.Errorf("%s counts as done", outcome.Name)
						}
					}
					if want := outcome.Name == "fails"; !outcome.Ran && errors.Is(outcome.Err(), errBroken) != want {
						t.Errorf("the error of %s is %v", outcome.Name, outcome.Err())
					}
				}
				if want := []string{"blocked", "fails", "later"}; !slices.Equal(kept, want) {
					t.Errorf("kept up are %v, want %v", kept, want)
				}
				if slices.Index(j.notes, "=blocked") < slices.Index(j.notes, "-slower") {
					t.Errorf("it did not see what all steps before it wrote: %v", j.notes)
				}
			})
		})
	}
}

func TestOutcomesSayWhatIsWaitedForAndWhatFailed(t *testing.T) {
	outcomes := New(ignore,
		Step[int]{Name: "a", Run: func(context.Context, int) Result { return Waiting("for the moon") }},
		Step[int]{Name: "b", Run: func(context.Context, int) Result { return Failed(errBroken) }},
	).Run(t.Context(), 0)
	if outcomes[0].Waiting() != "for the moon" || !errors.Is(outcomes[1].Err(), errBroken) {
		t.Errorf("got %+v", outcomes)
	}
}

// A step sees what those before it wrote into the target, without a lock of its own.
func TestStepsSeeWhatThoseBeforeThemWrote(t *testing.T) {
	type target struct{ a, b, sum int }
	graph := New(ignore,
		Step[*target]{Name: "a", Run: func(_ context.Context, t *target) Result { t.a = 1; return Done() }},
		Step[*target]{Name: "b", Run: func(_ context.Context, t *target) Result { t.b = 2; return Done() }},
		Step[*target]{Name: "sum", After: []string{"a", "b"}, Run: func(_ context.Context, t *target) Result {
			t.sum = t.a + t.b
			return Done()
		}},
	)
	for range 100 {
		seen := &target{}
		if graph.Run(t.Context(), seen); seen.sum != 3 {
			t.Fatalf("got %d", seen.sum)
		}
	}
}

func TestOnlyStepsThatRanAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock sync.Mutex
		timed := map[string]time.Duration{}
		observe := func(step string, took time.Duration) {
			lock.Lock()
			defer lock.Unlock()
			timed[step] = took
		}
		New(observe, finishes("a"), step("b", []string{"a"}, Failed(errBroken)), finishes("c", "b")).Run(t.Context(), &journal{})
		if len(timed) != 2 || timed["a"] != time.Second || timed["b"] != time.Second {
			t.Errorf("got %v", timed)
		}
	})
}

func TestNewPanicsOnAMistake(t *testing.T) {
	for name, test := range map[string]struct {
		steps []Step[*journal]
		says  string
	}{
		"a name twice":                   {[]Step[*journal]{finishes("a"), finishes("a")}, `step "a" is listed twice`},
		"an unknown step before":         {[]Step[*journal]{finishes("b", "a")}, `step "b" comes after "a", which is not listed before it`},
		"a step that comes after itself": {[]Step[*journal]{finishes("a", "a")}, `step "a" comes after "a"`},
		"a circle":                       {[]Step[*journal]{finishes("a", "b"), finishes("b", "a")}, `step "a" comes after "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, test.says) {
					t.Errorf("panicked with %q, want %q", said, test.says)
				}
			}()
			New(ignore, test.steps...)
		})
	}
}

// An error that was another one each time would change the status each time, and each change reconciles again.
func TestAPanicIsTheSameErrorOfItsStepEachTime(t *testing.T) {
	ctx, heard := panicstest.Listen(t.Context())
	fall := func(run int) { panic(fmt.Sprintf("over stone %d at %p", run, new(int))) }
	graph := New(ignore,
		Step[int]{Name: "trips", Run: func(_ context.Context, run int) Result { fall(run); return Done() }},
		Step[int]{Name: "follows", After: []string{"trips"}, Run: func(context.Context, int) Result { return Done() },
			Keep: func(_ context.Context, run int) Result { fall(run); return Done() }},
	)
	const runs = 2
	for run := range runs {
		outcomes := graph.Run(ctx, run)
		for i, want := range []string{"step trips panicked; the manager's log has the stack", "step follows panicked; the manager's log has the stack"} {
			if err := outcomes[i].Err(); err == nil || err.Error() != want {
				t.Errorf("the error of %s is %v", outcomes[i].Name, err)
			}
		}
		if outcomes[1].Ran {
			t.Error("the step after it ran")
		}
	}
	logged := heard.Errors()
	if len(logged) != 2*runs || heard.Count() != 2*runs {
		t.Errorf("of %d panics %d were logged and %d counted", 2*runs, len(logged), heard.Count())
	}
	for _, line := range logged {
		if !strings.Contains(line, "over stone") || !strings.Contains(line, "flow_test.go") {
			t.Errorf("it logged %s", line)
		}
	}
}
