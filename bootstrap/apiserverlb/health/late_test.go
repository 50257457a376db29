package health

import (
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// mostCalm is how often a backend is probed in a minute at most while all is well.
const mostCalm = 16

var members = []string{first, second, third}

// slowDown has all members answer late, and lets them be known for it.
func (w *world) slowDown(delay time.Duration) {
	for _, address := range members {
		w.delay(address, delay)
	}
	after(time.Minute)
}

// sent is how often each member is probed until what happens is over.
func (w *world) sent(happens func()) map[string]int32 {
	probed := map[string]int32{}
	for _, address := range members {
		probed[address] = -w.probes[address].sent.Load()
	}
	happens()
	for _, address := range members {
		probed[address] += w.probes[address].sent.Load()
	}
	return probed
}

func TestLateAnswersDoNotHaveBackendsAskedMoreOften(t *testing.T) {
	for _, delay := range []time.Duration{260, 400, 1500} {
		delay *= time.Millisecond
		t.Run(delay.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.slowDown(delay)
				ours := w.carry(first)
				for address, probed := range w.sent(func() { after(time.Minute) }) {
					if probed > mostCalm {
						t.Errorf("%s was probed %d times in a minute", address, probed)
					}
					w.expect(address, backends.Ready)
				}
				if ours.reset.Load() {
					t.Error("a connection was reset")
				}
			})
		})
	}
}

// While answers are late bytes are not answered soon either: each backend is probed once a second then, by its own sign.
func TestSignsWhileAnswersAreLateHaveOnlyTheirBackendAsked(t *testing.T) {
	inBubble(t, func(w *world) {
		w.slowDown(400 * time.Millisecond)
		probed := w.sent(func() {
			for tenth := range 600 {
				for _, address := range members {
					w.backend(address).CountSent(1)
					if tenth%5 == 0 {
						w.backend(address).CountReceived(1)
					}
				}
				after(100 * time.Millisecond)
			}
		})
		for address, probed := range probed {
			if probed > 70 {
				t.Errorf("%s was probed %d times in a minute", address, probed)
			}
		}
	})
}

func TestABackendThatHangsIsFoundAlsoWhenAnswersWereLate(t *testing.T) {
	for name, test := range map[string]struct {
		own, others time.Duration
		within      time.Duration
	}{
		"nobody's":            {0, 0, soonDead},
		"those of the others": {0, 400 * time.Millisecond, soonDead + time.Second},
		"its own":             {400 * time.Millisecond, 0, soonDead + 1500*time.Millisecond},
		"all":                 {400 * time.Millisecond, 400 * time.Millisecond, soonDead + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.slowDown(test.others)
				w.delay(first, test.own)
				after(20 * time.Second)
				// The answer to a question that is out already would be one more sign of life.
				for before := int32(-1); before != w.probes[first].sent.Load(); {
					before = w.probes[first].sent.Load()
					after(time.Second)
				}
				ours := w.carry(first)
				w.answer(first, silence)
				w.backend(first).CountSent(100)
				began := time.Now()
				for w.backend(first).Verdict().State != backends.Dead && time.Since(began) < time.Minute {
					after(25 * time.Millisecond)
				}
				took := time.Since(began)
				if took > test.within || !ours.reset.Load() {
					t.Errorf("dead after %v, its connection reset: %t", took, ours.reset.Load())
				}
				w.expect(second, backends.Ready)
			})
		})
	}
}

func TestBackendsWhoseAnswersAreInTimeAgainAreGivenNoMoreThanOthers(t *testing.T) {
	inBubble(t, func(w *world) {
		w.slowDown(time.Second)
		w.slowDown(0)
		w.answer(first, silence)
		w.backend(first).CountSent(100)
		after(soonDead)
		w.expect(first, backends.Dead)
	})
}

func TestHowLongAnAnswerMayTake(t *testing.T) {
	for late, allowed := range []time.Duration{250, 250, 500, 1000, 2000, 4000, 5000, 5000} {
		if got := DefaultTiming.allowed(late); got != allowed*time.Millisecond {
			t.Errorf("after %d late answers: %v", late, got)
		}
	}
}
