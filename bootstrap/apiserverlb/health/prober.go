package health

import (
	"context"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// prober probes one backend again and again, and keeps the evidence.
type prober struct {
	checker *Checker
	backend *backends.Backend
	probe   Probe
	stop    context.CancelFunc
	answers chan arrival
	// nudge has the backend probed at once, because another one does not answer.
	nudge chan struct{}

	lock     sync.Mutex
	evidence Evidence
	// lastSign is when the backend last gave a sign of life, to a probe or on a connection.
	lastSign time.Time
	// troubled is how many probes in a row found the backend other than ready.
	troubled int
	// late is how many late answers in a row came after a doubt.
	late    int
	traffic traffic
}

// arrival is an answer, when it came and how long it took.
type arrival struct {
	Answer
	at   time.Time
	took time.Duration
}

func (p *prober) run(ctx context.Context) {
	defer p.probe.Close()
	for {
		started := time.Now()
		if p.wanted() {
			p.send(ctx, started)
		}
		if !p.pause(ctx, started) {
			return
		}
	}
}

// wanted is false for a seed that needs no probe: it is not listed, carries nothing, and a listed backend is ready.
func (p *prober) wanted() bool {
	if p.backend.Listed() || !p.backend.Idle() {
		return true
	}
	for _, other := range p.checker.set.All() {
		if other.Listed() && other.Verdict().State == backends.Ready && other.Verdict().Answers {
			return false
		}
	}
	return true
}

// send sends a probe and waits for an answer: as long as one may take, or until another prober asks for a fresh probe because its
// backend stopped answering.
func (p *prober) send(ctx context.Context, started time.Time) {
	c := p.checker
	c.lock.Lock()
	c.probes++
	c.lock.Unlock()
	p.catchUp()
	if p.doubted() {
		c.nudgeOthers(p)
	}
	received := p.backend.Received()
	probing, cancel := context.WithTimeout(ctx, c.timing.Patience)
	go func() {
		defer cancel()
		p.probe.Send(probing, func(answer Answer) {
			select {
			case p.answers <- arrival{answer, time.Now(), time.Since(started)}:
			default:
			}
		})
	}()
	alive, poked := false, false
	timer := time.NewTimer(c.timing.Answer)
	defer timer.Stop()
	allowed := p.allowed()
	// longer is set once the prober waits longer than usual.
	var longer <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.backend.Poked():
			// This probe counts as silent only when another backend answers meanwhile: probe the others, too.
			poked = true
			p.noteSign()
		case answer := <-p.answers:
			if answer.Kind != Alive {
				p.answered(answer)
				if poked {
					// The answer may be older than the sign of failure that poked this backend.
					p.backend.Poke()
				}
				return
			}
			alive = true
			p.noteAlive(answer.at)
		case <-longer:
			return
		case <-timer.C:
			if more := allowed - c.timing.Answer; more > 0 && longer == nil {
				longer = p.nudge
				timer.Reset(more)
				continue
			}
			p.unanswered(started, allowed, alive || p.backend.Received() != received)
			return
		}
	}
}

// catchUp takes answers to earlier probes, so that none passes for an answer to the next one: a backend that hung and came
// back answers all probes at once.
func (p *prober) catchUp() {
	for {
		select {
		case answer := <-p.answers:
			if answer.Kind != Alive {
				p.answered(answer)
			} else {
				p.noteAlive(answer.at)
			}
		default:
			return
		}
	}
}

func (p *prober) answered(answer arrival) {
	if answer.Kind == NotProbed {
		p.notProbed(answer.Problem)
		return
	}
	p.lock.Lock()
	p.evidence.NotProbed = ""
	switch e := p.evidence; {
	case answer.took <= p.checker.timing.Answer:
		p.late = 0
	case e.Silent < deadly && e.Unanswered+e.Slow > 0:
		p.late++
	}
	p.evidence.Last = answer.Answer
	p.evidence.Silent, p.evidence.Unanswered, p.evidence.Slow = 0, 0, 0
	if answer.Kind != Refused {
		p.lastSign = latest(p.lastSign, answer.at)
	}
	// The backend answers: nothing that was sent before counts as unanswered.
	p.traffic.waiting = time.Time{}
	p.lock.Unlock()
	p.judge()
}

// notProbed notes that this machine could not send the probe. Doubts end: no answer could end them later.
func (p *prober) notProbed(problem string) {
	p.lock.Lock()
	e := &p.evidence
	told := e.NotProbed != ""
	e.NotProbed = problem
	if e.Silent < deadly {
		e.Silent, e.Unanswered = 0, 0
	}
	p.lock.Unlock()
	if !told {
		p.checker.log.Error(nil, "A backend keeps its state", "Backend", p.backend.Address, "Reason", problem)
	}
	p.judge()
}

// unanswered notes a probe without an answer in the time allowed. alive is true when the backend gave another sign of life.
func (p *prober) unanswered(started time.Time, allowed time.Duration, alive bool) {
	c := p.checker
	late := c.late(started) || time.Since(started) > allowed+c.timing.Late
	others := c.othersAlive(p, started)
	p.lock.Lock()
	e := &p.evidence
	e.NotProbed = ""
	switch {
	case alive:
		e.Slow++
		e.Silent, e.Unanswered = 0, 0
	case others && !late:
		e.Silent++
		e.Slow = 0
		e.Unanswered++
	default:
		// All backends are silent, or this machine is late: that says nothing of this backend, so the count of its silent
		// probes stays. A machine that is late now and then must find a hanging server too.
		e.Slow = 0
		e.Unanswered++
	}
	p.lock.Unlock()
	p.judge()
}

// judge gives the backend its verdict and acts on a change.
func (p *prober) judge() {
	c := p.checker
	p.lock.Lock()
	p.evidence.Listed, p.evidence.Connections = p.backend.Listed(), p.backend.Established()
	verdict := Judge(p.evidence)
	silent := p.evidence.Silent >= deadly
	before := p.backend.Judge(verdict)
	p.lock.Unlock()
	if before.State == verdict.State {
		return
	}
	reset := 0
	if silent {
		reset = p.backend.Reset()
		c.lock.Lock()
		c.resets += uint64(reset)
		c.lock.Unlock()
	}
	c.log.Info("A backend changed its state", "Backend", p.backend.Address, "Before", before.State.String(), "State", verdict.State.String(), "Reason", verdict.Reason, "ConnectionsReset", reset)
}

// pause waits until the next probe is due, or a poke or nudge wants it sooner. It is false when the context ended.
func (p *prober) pause(ctx context.Context, started time.Time) bool {
	c := p.checker
	alert, none := c.mood()
	p.lock.Lock()
	if p.backend.Verdict().State == backends.Ready {
		p.troubled = 0
	} else {
		p.troubled++
	}
	next := c.timing.next(alert, none, p.troubled)
	p.lock.Unlock()
	// Pokes never make probes more frequent than this.
	soonest := time.NewTimer(time.Until(started.Add(c.timing.Answer / 2)))
	defer soonest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soonest.C:
	}
	due := time.NewTimer(time.Until(started.Add(next)))
	defer due.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-p.backend.Poked():
		p.noteSign()
	case <-p.nudge:
	case <-due.C:
	}
	return true
}

func (p *prober) noteAlive(at time.Time) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.lastSign = latest(p.lastSign, at)
}

func latest(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}

func (p *prober) lastSignAt() time.Time {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.lastSign
}

// allowed is how long the next answer may take before the backend is in doubt.
func (p *prober) allowed() time.Duration {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.evidence.Unanswered > 0 {
		return p.checker.timing.Answer
	}
	return p.checker.timing.allowed(p.late)
}

// doubted is true when the last probe had no answer.
func (p *prober) doubted() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.evidence.Unanswered > 0 && p.evidence.Silent < deadly
}

// fresh is true while the backend's silence is new. Long silence no longer speeds up probes of others.
func (p *prober) fresh() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.evidence.Unanswered < long
}
