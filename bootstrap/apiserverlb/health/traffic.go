package health

import "time"

// traffic is what the last tick saw of the bytes to and from a backend.
type traffic struct {
	sent, received uint64
	// waiting is since when bytes were sent without any coming back; zero when none were.
	waiting time.Time
	poked   time.Time
}

// look finds bytes that went to the backend and brought none back.
func (a *asker) look(now time.Time) {
	sent, received := a.backend.Sent(), a.backend.Received()
	a.lock.Lock()
	defer a.lock.Unlock()
	t := &a.traffic
	switch {
	case received != t.received:
		a.heard = now
		t.waiting = time.Time{}
	case sent != t.sent && t.waiting.IsZero():
		t.waiting = now
	}
	t.sent, t.received = sent, received
	if !t.waiting.IsZero() && now.Sub(t.waiting) >= a.checker.timing.Unanswered && now.Sub(t.poked) >= time.Second {
		t.poked = now
		a.backend.Poke()
	}
}

// noteSign has the other backends asked too when something looks wrong with this one: its silence will need witnesses. While
// late answers are usual so are such signs.
func (a *asker) noteSign() {
	if a.allowed() == a.checker.timing.Answer {
		a.checker.nudgeOthers(a)
	}
}
