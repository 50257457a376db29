package balancer

import (
	"sync"
	"time"
)

const (
	// hedgeFactor is how many times longer than usual an answer must take before the balancer hedges.
	hedgeFactor = 4
	// hedgeBurst and hedgesPerSecond bound the additional attempts. A connection beyond them waits
	// longer; it does not fail.
	hedgeBurst      = 100
	hedgesPerSecond = 50
)

// hedging decides when to hedge: when a backend takes much longer than backends usually take here. When all servers are slow,
// that is usual, and nothing is hedged.
type hedging struct {
	shortest time.Duration
	longest  time.Duration

	lock sync.Mutex
	// usual is the moving average of the times to a first byte.
	usual  time.Duration
	tokens float64
	filled time.Time
}

func newHedging(timing Timing) *hedging {
	return &hedging{shortest: timing.ShortestHedge, longest: timing.LongestHedge, tokens: hedgeBurst, filled: time.Now()}
}

// wait is how long a backend may be silent before the balancer hedges.
func (h *hedging) wait() time.Duration {
	h.lock.Lock()
	defer h.lock.Unlock()
	return min(max(hedgeFactor*h.usual, h.shortest), h.longest)
}

// answered takes the time to a first byte into the average.
func (h *hedging) answered(after time.Duration) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.usual += (after - h.usual) / 8
}

// take reports whether one more attempt may be made now.
func (h *hedging) take(now time.Time) bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.tokens = min(h.tokens+hedgesPerSecond*now.Sub(h.filled).Seconds(), hedgeBurst)
	h.filled = now
	if h.tokens < 1 {
		return false
	}
	h.tokens--
	return true
}
