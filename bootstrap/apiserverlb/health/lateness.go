package health

import (
	"context"
	"sync/atomic"
	"time"
)

// stuck is how long a tick may be overdue before this process counts as stuck rather than late. That is longer than an
// overloaded machine keeps a process waiting, and shorter than the watchdog waits.
const stuck = 5 * time.Second

// Lateness tells whether the timers of this process are late. While they are, the silence of backends proves nothing.
type Lateness struct {
	period    time.Duration
	tolerance time.Duration
	began     time.Time
	// last is when a timer was late last, after began.
	last atomic.Int64
	// tick is when the timer fired last, after began.
	tick atomic.Int64
}

// NewLateness returns a Lateness with a tick every period. A tick that is delayed by more than tolerance is late.
func NewLateness(period, tolerance time.Duration) *Lateness {
	l := &Lateness{period: period, tolerance: tolerance, began: time.Now()}
	l.last.Store(-1)
	return l
}

// Run watches the timers until the context ends, and calls each at every tick.
func (l *Lateness) Run(ctx context.Context, each func()) {
	timer := time.NewTimer(l.period)
	defer timer.Stop()
	l.tick.Store(int64(time.Since(l.began)))
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		l.note(time.Since(l.began))
		each()
		timer.Reset(l.period)
		// The time that each took must not count as lateness.
		l.tick.Store(int64(time.Since(l.began)))
	}
}

func (l *Lateness) note(now time.Duration) {
	if now-time.Duration(l.tick.Load()) > l.period+l.tolerance {
		l.last.Store(int64(now))
	}
}

// Since reports whether a timer was late after the given moment, or is overdue now.
func (l *Lateness) Since(moment time.Time) bool {
	now := time.Since(l.began)
	if now-time.Duration(l.tick.Load()) > l.period+l.tolerance {
		return true
	}
	return time.Duration(l.last.Load()) >= moment.Sub(l.began) && l.last.Load() >= 0
}

// Stuck reports whether the process is stuck: the last tick is too long ago for mere lateness.
func (l *Lateness) Stuck() bool {
	return time.Since(l.began)-time.Duration(l.tick.Load()) > l.period+stuck
}
