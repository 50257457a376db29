package health

import (
	"math/rand/v2"
	"time"
)

// Timing is how often backends are probed and what counts as silence.
type Timing struct {
	// Answer is how long a probe may take unless late answers are usual. It is also the interval of probes while something
	// looks wrong.
	Answer time.Duration
	// Recheck is the interval for a backend that is not ready.
	Recheck time.Duration
	// Longest is the interval for all backends while all is well, and for a backend that has not been ready for long.
	Longest time.Duration
	// Patience is how long a late answer still counts as a sign of life.
	Patience time.Duration
	// Tick is how often the traffic of backends is checked.
	Tick time.Duration
	// Unanswered is how long bytes may go to a backend without any coming back before it is probed.
	Unanswered time.Duration
	// Late is by how much a timer may be late.
	Late time.Duration
}

// DefaultTiming has a hanging server drain in about a second and dead in about two while there is traffic.
var DefaultTiming = Timing{
	Answer:     250 * time.Millisecond,
	Recheck:    500 * time.Millisecond,
	Longest:    5 * time.Second,
	Patience:   5 * time.Second,
	Tick:       50 * time.Millisecond,
	Unanswered: 100 * time.Millisecond,
	Late:       100 * time.Millisecond,
}

// long is how many probes in a row must find a backend not ready before the interval grows to Longest.
const long = 60

// next is the time from the start of a probe to the start of the next. alert is true when some backend has just stopped
// answering, none when no backend is ready. troubled is how many probes in a row found the backend not ready.
func (t Timing) next(alert, none bool, troubled int) time.Duration {
	switch {
	case alert:
		return t.Answer
	case none && troubled < long:
		return jittered(t.Answer)
	case none:
		return jittered(2 * t.Recheck)
	case troubled == 0:
		return jittered(t.Longest)
	case troubled < long:
		return jittered(t.Recheck)
	}
	return jittered(t.Longest)
}

// allowed is how long an answer may take when late answers have ended that many doubts in a row. The first does not count;
// each further one doubles the time.
func (t Timing) allowed(late int) time.Duration {
	allowed := t.Answer
	for range late - 1 {
		allowed = min(2*allowed, t.Patience)
	}
	return allowed
}

// jittered is d plus or minus up to a fifth: workers that started together must not probe together.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + time.Duration(rand.Int64N(int64(2*d/5)))
}
