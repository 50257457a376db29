package health

import "time"

// traffic is what the last tick saw of the bytes to and from a backend.
type traffic struct {
	sent, received uint64
	// waiting is since when sent bytes have brought none back; zero while nothing is waited for.
	waiting time.Time
	poked   time.Time
}

// look notes what came from the backend since the last tick, and pokes it when sent bytes brought none back for too long.
func (p *prober) look(now time.Time) {
	sent, received := p.backend.Sent(), p.backend.Received()
	p.lock.Lock()
	defer p.lock.Unlock()
	t := &p.traffic
	switch {
	case received != t.received:
		p.lastSign = now
		t.waiting = time.Time{}
	case sent != t.sent && t.waiting.IsZero():
		t.waiting = now
	}
	t.sent, t.received = sent, received
	if !t.waiting.IsZero() && now.Sub(t.waiting) >= p.checker.timing.Unanswered && now.Sub(t.poked) >= time.Second {
		t.poked = now
		p.backend.Poke()
	}
}

// noteSign has the other backends probed when something looks wrong with this one: its silence counts only while others
// answer. Where late answers are usual, such signs mean nothing and are ignored.
func (p *prober) noteSign() {
	if p.allowed() == p.checker.timing.Answer {
		p.checker.nudgeOthers(p)
	}
}
