package probe

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
)

var _ source.Source = &Prober{}

func key(object, kind string) Key {
	return Key{Object: types.NamespacedName{Namespace: "team", Name: object}, Kind: kind}
}

// counted is a probe that counts how often it is asked and has the answer that is stored last.
type counted struct {
	asked   atomic.Int32
	problem atomic.Value
}

func (c *counted) probe(identity, prompt string) Probe {
	return Probe{Identity: identity, Prompt: prompt, Do: func(context.Context) Result {
		problem, _ := c.problem.Load().(string)
		return Result{Problem: problem, Value: c.asked.Add(1)}
	}}
}

// hang is a probe that nobody answers.
func hang(ctx context.Context) Result {
	<-ctx.Done()
	return Result{Problem: ctx.Err().Error()}
}

func TestAReconcileGetsTheLastAnswerAndIsWokenByTheFirst(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		if answer, ok := p.Probe(key("blue", "tenant"), c.probe("a", "")); ok {
			t.Errorf("an answer before it was asked: %v", answer)
		}
		synctest.Wait()
		if w.Count() != 1 {
			t.Errorf("woken %d times", w.Count())
		}
		if answer, ok := p.Probe(key("blue", "tenant"), c.probe("a", "")); !ok || answer.Value != int32(1) {
			t.Errorf("answer: %v, %t", answer, ok)
		}
	})
}

func TestASettledObjectIsAskedEveryMinuteAndReconciledNever(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Probe(key("blue", "tenant"), c.probe("a", ""))
		backgroundtest.After(time.Hour)
		if asked := c.asked.Load(); asked < 54 || asked > 61 {
			t.Errorf("asked %d times in an hour", asked)
		}
		if w.Count() != 1 {
			t.Errorf("woken %d times", w.Count())
		}
		if answer, _ := p.Probe(key("blue", "tenant"), c.probe("a", "")); answer.Value != c.asked.Load() {
			t.Errorf("the value %v is not the last", answer.Value)
		}
	})
}

func TestAnswersThatDifferWake(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Probe(key("blue", "tenant"), c.probe("a", ""))
		synctest.Wait()
		for i, problem := range []string{"refused", "forbidden", ""} {
			c.problem.Store(problem)
			backgroundtest.After(2 * Interval)
			if got := w.Count(); got != i+2 {
				t.Errorf("after %q it was woken %d times", problem, got)
			}
		}
	})
}

func TestFailuresAreAskedAgainSoonThenRarely(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		c.problem.Store("refused")
		p.Probe(key("blue", "tenant"), c.probe("a", "1 pod"))
		backgroundtest.After(time.Second)
		if asked := c.asked.Load(); asked != 3 {
			t.Errorf("asked %d times in the first second", asked)
		}
		backgroundtest.After(5 * time.Minute)
		before := c.asked.Load()
		if before > 16 {
			t.Errorf("asked %d times in five minutes", before)
		}
		backgroundtest.After(10 * time.Minute)
		if asked := c.asked.Load() - before; asked < 9 || asked > 10 {
			t.Errorf("asked %d times in ten more minutes", asked)
		}
		if w.Count() != 1 {
			t.Errorf("the same failure woke %d times", w.Count())
		}

		// Something happened that may change the answer.
		before = c.asked.Load()
		answer, ok := p.Probe(key("blue", "tenant"), c.probe("a", "2 pods"))
		if !ok || answer.Problem != "refused" {
			t.Errorf("the last answer does not hold: %v, %t", answer, ok)
		}
		backgroundtest.After(time.Second)
		if asked := c.asked.Load() - before; asked != 3 {
			t.Errorf("asked %d times in the first second after the prompt", asked)
		}
		if w.Count() != 1 {
			t.Errorf("the same failure woke %d times", w.Count())
		}
	})
}

func TestAnotherIdentityHasNoAnswerYet(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Probe(key("blue", "tenant"), c.probe("a", ""))
		synctest.Wait()
		if answer, ok := p.Probe(key("blue", "tenant"), c.probe("b", "")); ok {
			t.Errorf("an answer to another probe: %v", answer)
		}
		synctest.Wait()
		if w.Count() != 2 {
			t.Errorf("woken %d times", w.Count())
		}
		backgroundtest.After(time.Hour)
		if asked := c.asked.Load(); asked > 62 {
			t.Errorf("asked %d times: the old probe is still asked", asked)
		}
	})
}

func TestWhatHangsIsCutShortWhenItsPromptChanges(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		p.Probe(key("blue", "tenant"), Probe{Prompt: "1 pod", Do: hang})
		backgroundtest.After(100 * time.Millisecond)
		c := &counted{}
		p.Probe(key("blue", "tenant"), c.probe("", "2 pods"))
		synctest.Wait()
		answer, ok := p.Probe(key("blue", "tenant"), c.probe("", "2 pods"))
		if !ok || answer.Problem != "" || w.Count() != 1 {
			t.Errorf("answer %v, %t, woken %d times", answer, ok, w.Count())
		}
	})
}

func TestNoAnswerIsAnAnswerAfterTheTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		probe   Probe
		timeout time.Duration
	}{
		"by default":         {Probe{Do: hang}, Timeout},
		"by a timeout given": {Probe{Do: hang, Timeout: time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
				p.Probe(key("blue", "tenant"), test.probe)
				backgroundtest.After(test.timeout - time.Millisecond)
				if w.Count() != 0 {
					t.Error("given up too early")
				}
				backgroundtest.After(time.Millisecond)
				if answer, ok := p.Probe(key("blue", "tenant"), test.probe); !ok || answer.Problem == "" {
					t.Errorf("answer %v, %t", answer, ok)
				}
			})
		})
	}
}

func TestTheSameProblemFromAnotherPortIsTheSameAnswer(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		port := 40000
		probe := Probe{Do: func(context.Context) Result {
			port++
			return Result{Problem: fmt.Sprintf("read tcp 10.0.0.1:%d->10.250.0.1:6443: connection reset by peer", port)}
		}}
		p.Probe(key("blue", "tenant"), probe)
		backgroundtest.After(5 * time.Minute)
		if w.Count() != 1 || port < 40003 {
			t.Errorf("asked %d times, it woke %d times", port-40000, w.Count())
		}
		if answer, _ := p.Probe(key("blue", "tenant"), probe); answer.Problem != "read tcp 10.250.0.1:6443: connection reset by peer" {
			t.Errorf("it says %q", answer.Problem)
		}
	})
}

func TestAPanicIsABadAnswer(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		probe := Probe{Do: func(context.Context) Result { panic("no map") }}
		p.Probe(key("blue", "tenant"), probe)
		synctest.Wait()
		if answer, _ := p.Probe(key("blue", "tenant"), probe); answer.Problem != "task tenant panicked; the manager's log has the stack" {
			t.Errorf("answer %v", answer)
		}
	})
}

// The first probes of 50 tenants that hang, and all their repetitions, wait for a place before the
// healthy one.
func TestTenantsThatHangDoNotHoldUpOneThatAnswers(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		kinds := []string{"etcd-data", "etcd-events", "tenant"}
		var hanging atomic.Int32
		hangCounted := func(ctx context.Context) Result {
			hanging.Add(1)
			defer hanging.Add(-1)
			return hang(ctx)
		}
		for i := range 50 {
			for _, kind := range kinds {
				p.Probe(key(fmt.Sprint("hangs-", i), kind), Probe{Do: hangCounted})
			}
		}
		synctest.Wait()
		if hanging.Load() != Places {
			t.Errorf("%d probes are in their first moments", hanging.Load())
		}
		start := time.Now()
		for i := range 100 {
			answered := make(chan time.Duration, 1)
			asked := time.Now()
			p.Probe(key(fmt.Sprint("healthy-", i), "tenant"), Probe{Do: func(context.Context) Result {
				answered <- time.Since(asked)
				return Result{}
			}})
			if took := <-answered; took > time.Second {
				t.Errorf("%s after all began to hang, an answer took %s", time.Since(start), took)
			}
			p.Forget(key(fmt.Sprint("healthy-", i), "").Object)
			backgroundtest.After(time.Second)
			if most := int32(Places * (1 + Timeout/Patience)); hanging.Load() > most {
				t.Errorf("%d probes are under way, more than %d", hanging.Load(), most)
			}
		}
	})
}

// Nothing ends the Prober here: the bubble fails the test when an asker's goroutine outlives Forget.
func TestNothingIsLeftOfForgottenTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := New(), &backgroundtest.Woken{}
		if err := p.Start(context.Background(), w); err != nil { //nolint:usetesting // The test's context ends.
			t.Fatal(err)
		}
		c := &counted{}
		for round := range 20 {
			for i := range 100 {
				name := fmt.Sprintf("tenant-%d-%d", round, i)
				p.Probe(key(name, "etcd-data"), c.probe("a", ""))
				p.Probe(key(name, "tenant"), Probe{Do: hang})
			}
			backgroundtest.After(time.Duration(round) * 100 * time.Millisecond)
			for i := range 100 {
				p.Forget(key(fmt.Sprintf("tenant-%d-%d", round, i), "").Object)
			}
		}
		synctest.Wait()
		asked, wakes := c.asked.Load(), w.Count()
		backgroundtest.After(time.Hour)
		if c.asked.Load() != asked || w.Count() != wakes {
			t.Error("a forgotten probe was asked")
		}
	})
}

func TestForgettingOneTenantLeavesOthers(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Probe(key("blue", "tenant"), c.probe("a", ""))
		p.Probe(key("green", "tenant"), c.probe("a", ""))
		synctest.Wait()
		p.Forget(key("blue", "").Object)
		if _, ok := p.Probe(key("green", "tenant"), c.probe("a", "")); !ok {
			t.Error("another tenant's answer is gone")
		}
		if _, ok := p.Probe(key("blue", "tenant"), c.probe("a", "")); ok {
			t.Error("a forgotten tenant's answer is still there")
		}
	})
}

func TestNothingIsAskedBeforeStartAndAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w, c := New(), &backgroundtest.Woken{}, &counted{}
		p.Probe(key("blue", "tenant"), c.probe("a", ""))
		ctx, cancel := context.WithCancel(t.Context())
		if err := p.Start(ctx, w); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.Probe(key("green", "tenant"), Probe{Do: hang})
		backgroundtest.After(time.Second)
		cancel()
		synctest.Wait()
		p.Probe(key("blue", "tenant"), c.probe("a", ""))
		backgroundtest.After(time.Hour)
		if c.asked.Load() != 0 || w.Count() != 0 {
			t.Errorf("asked %d times, woken %d times", c.asked.Load(), w.Count())
		}
	})
}
