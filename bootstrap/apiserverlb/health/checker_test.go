package health

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// fake is a backend whose answers a test chooses. Silent is the zero Answer.
type fake struct {
	answer atomic.Value
	// delay is how long an answer takes, a time.Duration.
	delay atomic.Int64
	sent  atomic.Int32

	lock sync.Mutex
	// unanswered are the questions that had no answer.
	unanswered []func(Answer)
}

func (f *fake) Send(ctx context.Context, report func(Answer)) {
	f.sent.Add(1)
	if answer := f.answer.Load().(Answer); answer.Kind != Unknown {
		// Go's race detector crashes where two goroutines of a bubble wait at once for timers that are over from the beginning.
		if delay := time.Duration(f.delay.Load()); delay > 0 {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return
			}
		}
		report(answer)
		return
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.unanswered = append(f.unanswered, report)
}

// catchUp answers what had no answer, as a server does that goes on after a stop.
func (f *fake) catchUp(answer Answer) {
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, report := range f.unanswered {
		report(answer)
	}
	f.unanswered = nil
}

func (f *fake) Close() {}

// carried is a connection that notes its end.
type carried struct{ reset atomic.Bool }

func (c *carried) Port() string { return "" }

func (c *carried) Reset() { c.reset.Store(true) }

// world is three backends in a bubble of its own time.
type world struct {
	t       *testing.T
	set     *backends.Set
	checker *Checker
	probes  map[string]*fake
	late    atomic.Bool
	logged  atomic.Int32
}

const first, second, third, seed = "10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.3:6443", "10.0.0.9:6443"

var (
	serving = Answer{Kind: Serving}
	silence = Answer{}
	refused = Answer{Refused, "connection refused"}
	stopped = Answer{NotReady, "/readyz answers 500"}
)

func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set, err := backends.NewSet([]string{seed}, []string{first, second, third}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Confirm([]string{first, second, third}); err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, set: set, probes: map[string]*fake{}}
		for _, address := range []string{first, second, third, seed, "10.0.0.4:6443"} {
			w.probes[address] = &fake{}
			w.answer(address, serving)
		}
		log := funcr.New(func(_, _ string) { w.logged.Add(1) }, funcr.Options{})
		w.checker = New(set, func(address string) Probe { return w.probes[address] }, DefaultTiming, log)
		w.checker.late = func(time.Time) bool { return w.late.Load() }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.checker.Run(ctx)
			close(ended)
		}()
		after(time.Minute)
		test(w)
		cancel()
		<-ended
	})
}

// after lets time pass, and everything that is due happen.
func after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // In the bubble of synctest it takes no time.
	synctest.Wait()
}

func (w *world) answer(address string, answer Answer) { w.probes[address].answer.Store(answer) }

func (w *world) delay(address string, delay time.Duration) {
	w.probes[address].delay.Store(int64(delay))
}

func (w *world) backend(address string) *backends.Backend {
	for _, b := range w.set.All() {
		if b.Address == address {
			return b
		}
	}
	w.t.Fatalf("no backend %s", address)
	return nil
}

func (w *world) expect(address string, state backends.State) {
	w.t.Helper()
	if verdict := w.backend(address).Verdict(); verdict.State != state {
		w.t.Errorf("%s is %s (%s), expected %s", address, verdict.State, verdict.Reason, state)
	}
}

// regularProbe has a backend probed now as if its time had come.
func (w *world) regularProbe(address string) {
	w.checker.lock.Lock()
	defer w.checker.lock.Unlock()
	select {
	case w.checker.probers[w.backend(address)].nudge <- struct{}{}:
	default:
	}
}

func (w *world) carry(address string) *carried {
	c := &carried{}
	w.backend(address).Carry(c)
	w.backend(address).Establish(c)
	return c
}

// soonDead is how long after a sign a silent backend dies at the latest: eight probes, and what it takes to begin.
const soonDead = 2200 * time.Millisecond

func TestASilentBackendDrainsWithinASecondOfASignAndDiesWithItsConnectionsASecondLater(t *testing.T) {
	inBubble(t, func(w *world) {
		ours, theirs := w.carry(first), w.carry(second)
		w.answer(first, silence)
		w.backend(first).CountSent(100)
		after(time.Second)
		w.expect(first, backends.Draining)
		if ours.reset.Load() {
			t.Error("its connection is reset already")
		}
		after(soonDead - time.Second)
		w.expect(first, backends.Dead)
		w.expect(second, backends.Ready)
		if !ours.reset.Load() || theirs.reset.Load() {
			t.Errorf("reset of the dead: %t, of the living: %t", ours.reset.Load(), theirs.reset.Load())
		}
		w.answer(first, serving)
		after(2 * time.Second)
		w.expect(first, backends.Ready)
	})
}

// A busy host keeps a server waiting for longer than a second now and then, and the next one right after.
func TestBackendsThatAreSilentForAWhileKeepTheirConnections(t *testing.T) {
	inBubble(t, func(w *world) {
		kept := map[string]*carried{first: w.carry(first), second: w.carry(second)}
		for range 3 {
			for _, address := range []string{first, second} {
				w.answer(address, silence)
				w.backend(address).CountSent(100)
				after(1500 * time.Millisecond)
				w.expect(address, backends.Draining)
				w.answer(address, serving)
				w.probes[address].catchUp(serving)
				after(600 * time.Millisecond)
				w.expect(address, backends.Ready)
			}
		}
		for address, connection := range kept {
			if connection.reset.Load() {
				t.Errorf("the connection to %s was reset", address)
			}
		}
	})
}

// A machine whose own timers are late once a second finds a hanging server all the same.
func TestASilentBackendDiesAlsoWhenOwnTimersAreLateNowAndThen(t *testing.T) {
	inBubble(t, func(w *world) {
		ours := w.carry(first)
		w.answer(first, silence)
		w.backend(first).CountSent(100)
		for range 10 {
			w.late.Store(true)
			after(300 * time.Millisecond)
			w.late.Store(false)
			after(700 * time.Millisecond)
		}
		w.expect(first, backends.Dead)
		if !ours.reset.Load() {
			t.Error("its connection was not reset")
		}
	})
}

// A regular probe may fall between the fault and its sign: it counts like the others.
func TestASilentBackendThatWasJustAskedDiesAsSoon(t *testing.T) {
	for probed := time.Duration(0); probed <= 250*time.Millisecond; probed += 10 * time.Millisecond {
		t.Run("after "+probed.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.answer(first, silence)
				w.backend(first).CountSent(100)
				after(probed)
				w.regularProbe(first)
				after(soonDead - probed)
				w.expect(first, backends.Dead)
			})
		})
	}
}

// A sign that comes while a question is out may be of something that happened after the answer was sent.
func TestAPokeDuringAProbeIsFollowedByAnotherProbe(t *testing.T) {
	inBubble(t, func(w *world) {
		w.regularProbe(first)
		after(300 * time.Millisecond)
		w.delay(first, 200*time.Millisecond)
		w.regularProbe(first)
		after(100 * time.Millisecond)
		before := w.probes[first].sent.Load()
		w.backend(first).Poke()
		after(125 * time.Millisecond)
		if probed := w.probes[first].sent.Load() - before; probed != 1 {
			t.Errorf("%d probes after the poke", probed)
		}
	})
}

// A server that goes on after a stop answers all probes that it got meanwhile. None of these answers counts for the one that is sent
// when it hangs again.
func TestABackendThatHangsAgainDiesAsSoonAsTheFirstTime(t *testing.T) {
	inBubble(t, func(w *world) {
		for range 3 {
			w.answer(first, silence)
			w.backend(first).CountSent(100)
			after(soonDead)
			w.expect(first, backends.Dead)
			after(3 * time.Second)
			w.answer(first, serving)
			w.probes[first].catchUp(serving)
			after(2 * time.Second)
			w.expect(first, backends.Ready)
		}
	})
}

// A server that answers pings lives, also when its /readyz hangs.
func TestABackendThatAnswersPingsAloneDrainsAndKeepsItsConnections(t *testing.T) {
	inBubble(t, func(w *world) {
		ours := w.carry(first)
		w.answer(first, Answer{Kind: Alive})
		w.answer(second, silence)
		after(time.Minute)
		w.expect(first, backends.Draining)
		w.expect(second, backends.Dead)
		if ours.reset.Load() {
			t.Error("its connection was reset")
		}
	})
}

func TestASilentBackendWithoutTrafficDiesToo(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answer(first, silence)
		after(DefaultTiming.Longest*6/5 + soonDead)
		w.expect(first, backends.Dead)
	})
}

func TestNobodyDiesWhen(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"all are silent": func(w *world) {
			for _, address := range []string{first, second, third, seed} {
				w.answer(address, silence)
			}
		},
		"our own timers are late": func(w *world) {
			w.late.Store(true)
			w.answer(first, silence)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				ours := w.carry(first)
				fault(w)
				w.backend(first).CountSent(1)
				after(time.Minute)
				w.expect(first, backends.Ready)
				if ours.reset.Load() {
					t.Error("a connection was reset")
				}
				if !w.backend(first).Verdict().Suspect {
					t.Error("the silent backend is not suspect")
				}
			})
		})
	}
}

// Clients that try again and again while nobody serves them must not have the backend change its state all the time.
func TestARefusingBackendIsDeadAlsoWhileConnectionsAreBeingOpened(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answer(first, refused)
		opened := &carried{}
		w.backend(first).Carry(opened)
		w.backend(first).Poke()
		after(time.Second)
		w.expect(first, backends.Dead)
		w.backend(first).Establish(opened)
		after(time.Second)
		w.expect(first, backends.Draining)
		w.backend(first).Release(opened)
		after(time.Second)
		w.expect(first, backends.Dead)
		if left := w.backend(first).Established(); left != 0 {
			t.Errorf("%d connections are left", left)
		}
	})
}

func TestABackendWhoseConnectionsCarryBytesIsNotDead(t *testing.T) {
	inBubble(t, func(w *world) {
		ours := w.carry(first)
		w.answer(first, silence)
		for range 200 {
			w.backend(first).CountReceived(1)
			after(100 * time.Millisecond)
		}
		w.expect(first, backends.Draining)
		if ours.reset.Load() {
			t.Error("a living connection was reset")
		}
	})
}

func TestTheFirstToAnswerAfterAllWereSilentDoesNotKillTheOthers(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, address := range []string{first, second, third, seed} {
			w.answer(address, silence)
		}
		ours := w.carry(second)
		after(time.Minute)
		w.answer(first, serving)
		// The probe that was under way and the next one are silent: one less than it takes.
		after(200 * time.Millisecond)
		w.expect(second, backends.Ready)
		w.answer(second, serving)
		w.answer(third, serving)
		after(3 * time.Second)
		for _, address := range []string{first, second, third} {
			w.expect(address, backends.Ready)
		}
		if ours.reset.Load() {
			t.Error("a connection was reset")
		}
	})
}

func TestAStoppingBackendKeepsItsConnections(t *testing.T) {
	inBubble(t, func(w *world) {
		ours := w.carry(first)
		for _, answer := range []Answer{stopped, refused} {
			w.answer(first, answer)
			after(6 * time.Second)
			w.expect(first, backends.Draining)
		}
		if ours.reset.Load() {
			t.Error("a connection was reset")
		}
		w.backend(first).Release(ours)
		after(time.Second)
		w.expect(first, backends.Dead)
		w.answer(first, serving)
		after(6 * time.Second)
		w.expect(first, backends.Ready)
	})
}

func TestABackendThatLeftTheListDrainsAndIsForgottenWithItsLastConnection(t *testing.T) {
	inBubble(t, func(w *world) {
		ours := w.carry(third)
		if err := w.set.Confirm([]string{first, second, "10.0.0.4:6443"}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		w.expect(third, backends.Draining)
		w.expect("10.0.0.4:6443", backends.Ready)
		w.backend(third).Release(ours)
		after(time.Second)
		for _, b := range w.set.All() {
			if b.Address == third {
				t.Error("it is still there")
			}
		}
	})
}

func TestASettledBackendIsAskedEveryFewSecondsAndASeedThatIsNotListedNever(t *testing.T) {
	inBubble(t, func(w *world) {
		before, seedBefore := w.probes[first].sent.Load(), w.probes[seed].sent.Load()
		after(10 * time.Minute)
		if probed := w.probes[first].sent.Load() - before; probed < 95 || probed > 155 {
			t.Errorf("probed %d times in ten minutes", probed)
		}
		if probed := w.probes[seed].sent.Load() - seedBefore; probed != 0 {
			t.Errorf("the seed was probed %d times", probed)
		}
	})
}

func TestASeedThatIsNotListedServesWhenNothingElseDoes(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, address := range []string{first, second, third} {
			w.answer(address, refused)
		}
		after(20 * time.Second)
		candidates, _ := w.set.Candidates("")
		if candidates[0].Address != seed {
			t.Errorf("the first candidate is %s", candidates[0].Address)
		}
	})
}

func TestABackendThatIsDeadForLongIsAskedRarely(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answer(first, silence)
		after(10 * time.Minute)
		w.expect(first, backends.Dead)
		before, living := w.probes[first].sent.Load(), w.probes[second].sent.Load()
		after(10 * time.Minute)
		if probed := w.probes[first].sent.Load() - before; probed > 155 {
			t.Errorf("the dead was probed %d times in ten minutes", probed)
		}
		if probed := w.probes[second].sent.Load() - living; probed > 155 {
			t.Errorf("a living one was probed %d times in ten minutes", probed)
		}
	})
}

func TestAPokeIsAnsweredWithOneProbeOfAll(t *testing.T) {
	inBubble(t, func(w *world) {
		before := w.checker.Probes()
		w.backend(first).Poke()
		after(200 * time.Millisecond)
		if probed := w.checker.Probes() - before; probed < 3 || probed > 5 {
			t.Errorf("%d probes", probed)
		}
	})
}

// Who kills a program that is late on a machine that starves makes it worse.
func TestACheckerOnAMachineThatStarvesIsAlive(t *testing.T) {
	inBubble(t, func(w *world) {
		w.late.Store(true)
		if !w.checker.Alive() {
			t.Error("it is taken for stuck because timers are late")
		}
	})
}

func TestABackendThatCannotBeProbedKeepsItsState(t *testing.T) {
	inBubble(t, func(w *world) {
		w.answer(second, stopped)
		w.answer(third, silence)
		after(time.Minute)
		told, probed := w.logged.Load(), w.checker.Probes()
		for _, address := range members {
			w.answer(address, Answer{NotProbed, "the CA file is broken"})
		}
		after(time.Minute)
		w.expect(first, backends.Ready)
		w.expect(second, backends.Draining)
		w.expect(third, backends.Dead)
		if reason := w.backend(first).Verdict().Reason; reason != "the CA file is broken" {
			t.Errorf("the reason is %q", reason)
		}
		if told = w.logged.Load() - told; int(told) != len(members) {
			t.Errorf("told %d times", told)
		}
		if probed = w.checker.Probes() - probed; probed > 300 {
			t.Errorf("probed %d times in a minute", probed)
		}
		for _, address := range members {
			w.answer(address, serving)
		}
		after(time.Minute)
		for _, address := range members {
			w.expect(address, backends.Ready)
		}
	})
}
