package health

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLatenessIsSeenWhenATickWasHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLateness(50*time.Millisecond, 100*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var ticks atomic.Int32
		go func() {
			l.Run(ctx, func() { ticks.Add(1) })
			close(ended)
		}()
		after(time.Second)
		if l.Since(time.Now().Add(-time.Second)) {
			t.Error("late although every timer was on time")
		}
		if ticks.Load() == 0 {
			t.Error("no tick")
		}
		// A machine that starves shows as a long time between two ticks.
		start := time.Now()
		l.note(time.Since(l.began) + time.Second)
		after(50 * time.Millisecond)
		if !l.Since(start) {
			t.Error("a late timer was not noticed")
		}
		after(2 * time.Second)
		if l.Since(time.Now().Add(-time.Millisecond)) {
			t.Error("late for ever")
		}
		cancel()
		<-ended
		after(time.Second)
		if !l.Since(time.Now()) {
			t.Error("a timer that is overdue was not noticed")
		}
	})
}

func TestATimerThatIsLateIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLateness(50*time.Millisecond, 100*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			l.Run(ctx, func() {})
			close(ended)
		}()
		after(time.Minute)
		if l.Stuck() {
			t.Error("stuck although every timer was on time")
		}
		cancel()
		<-ended
		after(4 * time.Second)
		if !l.Since(time.Now()) || l.Stuck() {
			t.Errorf("after 4 s it is late (%t) and no more (stuck: %t)", l.Since(time.Now()), l.Stuck())
		}
		after(2 * time.Second)
		if !l.Stuck() {
			t.Error("not stuck after 6 s without a tick")
		}
	})
}
