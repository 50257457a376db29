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

// counted is a question that counts how often it is asked and has the answer that is stored last.
type counted struct {
	asked   atomic.Int32
	problem atomic.Value
}

func (c *counted) question(identity, prompt string) Question {
	return Question{Identity: identity, Prompt: prompt, Ask: func(context.Context) Answer {
		problem, _ := c.problem.Load().(string)
		return Answer{Problem: problem, Value: c.asked.Add(1)}
	}}
}

// hang is a question that nobody answers.
func hang(ctx context.Context) Answer {
	<-ctx.Done()
	return Answer{Problem: ctx.Err().Error()}
}

func TestAReconcileGetsTheLastAnswerAndIsWokenByTheFirst(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		if answer, ok := p.Ask(key("blue", "tenant"), c.question("a", "")); ok {
			t.Errorf("an answer before it was asked: %v", answer)
		}
		synctest.Wait()
		if w.Count() != 1 {
			t.Errorf("woken %d times", w.Count())
		}
		if answer, ok := p.Ask(key("blue", "tenant"), c.question("a", "")); !ok || answer.Value != int32(1) {
			t.Errorf("answer: %v, %t", answer, ok)
		}
	})
}

func TestASettledObjectIsAskedEveryMinuteAndReconciledNever(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Ask(key("blue", "tenant"), c.question("a", ""))
		backgroundtest.After(time.Hour)
		if asked := c.asked.Load(); asked < 54 || asked > 61 {
			t.Errorf("asked %d times in an hour", asked)
		}
		if w.Count() != 1 {
			t.Errorf("woken %d times", w.Count())
		}
		if answer, _ := p.Ask(key("blue", "tenant"), c.question("a", "")); answer.Value != c.asked.Load() {
			t.Errorf("the value %v is not the last", answer.Value)
		}
	})
}

func TestAnswersThatDifferWake(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Ask(key("blue", "tenant"), c.question("a", ""))
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
		p.Ask(key("blue", "tenant"), c.question("a", "1 pod"))
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
		answer, ok := p.Ask(key("blue", "tenant"), c.question("a", "2 pods"))
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
		p.Ask(key("blue", "tenant"), c.question("a", ""))
		synctest.Wait()
		if answer, ok := p.Ask(key("blue", "tenant"), c.question("b", "")); ok {
			t.Errorf("an answer to another question: %v", answer)
		}
		synctest.Wait()
		if w.Count() != 2 {
			t.Errorf("woken %d times", w.Count())
		}
		backgroundtest.After(time.Hour)
		if asked := c.asked.Load(); asked > 62 {
			t.Errorf("asked %d times: the old question is still asked", asked)
		}
	})
}

func TestWhatHangsIsCutShortWhenItsPromptChanges(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		p.Ask(key("blue", "tenant"), Question{Prompt: "1 pod", Ask: hang})
		backgroundtest.After(100 * time.Millisecond)
		c := &counted{}
		p.Ask(key("blue", "tenant"), c.question("", "2 pods"))
		synctest.Wait()
		answer, ok := p.Ask(key("blue", "tenant"), c.question("", "2 pods"))
		if !ok || answer.Problem != "" || w.Count() != 1 {
			t.Errorf("answer %v, %t, woken %d times", answer, ok, w.Count())
		}
	})
}

func TestNoAnswerIsAnAnswerAfterTheTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		question Question
		timeout  time.Duration
	}{
		"by default":         {Question{Ask: hang}, Timeout},
		"by a timeout given": {Question{Ask: hang, Timeout: time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
				p.Ask(key("blue", "tenant"), test.question)
				backgroundtest.After(test.timeout - time.Millisecond)
				if w.Count() != 0 {
					t.Error("given up too early")
				}
				backgroundtest.After(time.Millisecond)
				if answer, ok := p.Ask(key("blue", "tenant"), test.question); !ok || answer.Problem == "" {
					t.Errorf("answer %v, %t", answer, ok)
				}
			})
		})
	}
}

func TestTheSameProblemFromAnotherPortIsTheSameAnswer(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		port := 40000
		question := Question{Ask: func(context.Context) Answer {
			port++
			return Answer{Problem: fmt.Sprintf("read tcp 10.0.0.1:%d->10.250.0.1:6443: connection reset by peer", port)}
		}}
		p.Ask(key("blue", "tenant"), question)
		backgroundtest.After(5 * time.Minute)
		if w.Count() != 1 || port < 40003 {
			t.Errorf("asked %d times, it woke %d times", port-40000, w.Count())
		}
		if answer, _ := p.Ask(key("blue", "tenant"), question); answer.Problem != "read tcp 10.250.0.1:6443: connection reset by peer" {
			t.Errorf("it says %q", answer.Problem)
		}
	})
}

func TestAPanicIsABadAnswer(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		question := Question{Ask: func(context.Context) Answer { panic("no map") }}
		p.Ask(key("blue", "tenant"), question)
		synctest.Wait()
		if answer, _ := p.Ask(key("blue", "tenant"), question); answer.Problem != "task tenant panicked; the manager's log has the stack" {
			t.Errorf("answer %v", answer)
		}
	})
}

// The first questions of 50 tenants that hang, and all their repetitions, wait for a place before the
// healthy one.
func TestTenantsThatHangDoNotHoldUpOneThatAnswers(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		kinds := []string{"etcd-data", "etcd-events", "tenant"}
		var hanging atomic.Int32
		hangCounted := func(ctx context.Context) Answer {
			hanging.Add(1)
			defer hanging.Add(-1)
			return hang(ctx)
		}
		for i := range 50 {
			for _, kind := range kinds {
				p.Ask(key(fmt.Sprint("hangs-", i), kind), Question{Ask: hangCounted})
			}
		}
		synctest.Wait()
		if hanging.Load() != Places {
			t.Errorf("%d questions are in their first moments", hanging.Load())
		}
		start := time.Now()
		for i := range 100 {
			answered := make(chan time.Duration, 1)
			asked := time.Now()
			p.Ask(key(fmt.Sprint("healthy-", i), "tenant"), Question{Ask: func(context.Context) Answer {
				answered <- time.Since(asked)
				return Answer{}
			}})
			if took := <-answered; took > time.Second {
				t.Errorf("%s after all began to hang, an answer took %s", time.Since(start), took)
			}
			p.Forget(key(fmt.Sprint("healthy-", i), "").Object)
			backgroundtest.After(time.Second)
			if most := int32(Places * (1 + Timeout/Patience)); hanging.Load() > most {
				t.Errorf("%d questions are under way, more than %d", hanging.Load(), most)
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
				p.Ask(key(name, "etcd-data"), c.question("a", ""))
				p.Ask(key(name, "tenant"), Question{Ask: hang})
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
			t.Error("a forgotten question was asked")
		}
	})
}

func TestForgettingOneTenantLeavesOthers(t *testing.T) {
	backgroundtest.InBubble(t, New, func(t *testing.T, p *Prober, w *backgroundtest.Woken) {
		c := &counted{}
		p.Ask(key("blue", "tenant"), c.question("a", ""))
		p.Ask(key("green", "tenant"), c.question("a", ""))
		synctest.Wait()
		p.Forget(key("blue", "").Object)
		if _, ok := p.Ask(key("green", "tenant"), c.question("a", "")); !ok {
			t.Error("another tenant's answer is gone")
		}
		if _, ok := p.Ask(key("blue", "tenant"), c.question("a", "")); ok {
			t.Error("a forgotten tenant's answer is still there")
		}
	})
}

func TestNothingIsAskedBeforeStartAndAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w, c := New(), &backgroundtest.Woken{}, &counted{}
		p.Ask(key("blue", "tenant"), c.question("a", ""))
		ctx, cancel := context.WithCancel(t.Context())
		if err := p.Start(ctx, w); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.Ask(key("green", "tenant"), Question{Ask: hang})
		backgroundtest.After(time.Second)
		cancel()
		synctest.Wait()
		p.Ask(key("blue", "tenant"), c.question("a", ""))
		backgroundtest.After(time.Hour)
		if c.asked.Load() != 0 || w.Count() != 0 {
			t.Errorf("asked %d times, woken %d times", c.asked.Load(), w.Count())
		}
	})
}
