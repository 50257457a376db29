package health

import (
	"context"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// asker asks one backend again and again and keeps the evidence.
type asker struct {
	checker *Checker
	backend *backends.Backend
	probe   Probe
	stop    context.CancelFunc
	answers chan arrival
	// nudge has the backend asked because of another one.
	nudge chan struct{}

	lock     sync.Mutex
	evidence Evidence
	// heard is when the backend last gave a sign of life to a probe or on a connection.
	heard time.Time
	// troubled is how many probes in a row found the backend other than ready.
	troubled int
	// late is how many doubts in a row a late answer dispelled.
	late    int
	traffic traffic
}

// arrival is an answer, when it came and how long it took.
type arrival struct {
	Answer
	at   time.Time
	took time.Duration
}

func (a *asker) run(ctx context.Context) {
	defer a.probe.Close()
	for {
		started := time.Now()
		if a.wanted() {
			a.ask(ctx, started)
		}
		if !a.pause(ctx, started) {
			return
		}
	}
}

// wanted is false for a seed that is not listed while a listed backend is ready: it needs no probe.
func (a *asker) wanted() bool {
	if a.backend.Listed() || !a.backend.Idle() {
		return true
	}
	for _, other := range a.checker.set.All() {
		if other.Listed() && other.Verdict().State == backends.Ready && other.Verdict().Answers {
			return false
		}
	}
	return true
}

// ask sends a probe and waits for an answer, as long as one may take, or until another backend's doubt needs a witness.
func (a *asker) ask(ctx context.Context, started time.Time) {
	c := a.checker
	c.lock.Lock()
	c.probes++
	c.lock.Unlock()
	a.catchUp()
	if a.doubted() {
		c.nudgeOthers(a)
	}
	received := a.backend.Received()
	asking, cancel := context.WithTimeout(ctx, c.timing.Patience)
	go func() {
		defer cancel()
		a.probe.Ask(asking, func(answer Answer) {
			select {
			case a.answers <- arrival{answer, time.Now(), time.Since(started)}:
			default:
			}
		})
	}()
	alive, poked := false, false
	timer := time.NewTimer(c.timing.Answer)
	defer timer.Stop()
	allowed := a.allowed()
	// longer is set while it is waited for longer than usual.
	var longer <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.backend.Poked():
			// The silence of this probe must count too. For that, other backends must have answered
			// meanwhile.
			poked = true
			a.noteSign()
		case answer := <-a.answers:
			if answer.Kind != Alive {
				a.answered(answer)
				if poked {
					// The answer may be older than the sign of failure that poked this backend.
					a.backend.Poke()
				}
				return
			}
			alive = true
			a.hear(answer.at)
		case <-longer:
			return
		case <-timer.C:
			if more := allowed - c.timing.Answer; more > 0 && longer == nil {
				longer = a.nudge
				timer.Reset(more)
				continue
			}
			a.unanswered(started, allowed, alive || a.backend.Received() != received)
			return
		}
	}
}

// catchUp takes what came since the last question was given up. An answer to the past must not pass for one to the next
// question: a backend that hung and came back answers all at once what it was asked meanwhile.
func (a *asker) catchUp() {
	for {
		select {
		case answer := <-a.answers:
			if answer.Kind != Alive {
				a.answered(answer)
			} else {
				a.hear(answer.at)
			}
		default:
			return
		}
	}
}

func (a *asker) answered(answer arrival) {
	if answer.Kind == Unasked {
		a.unasked(answer.Problem)
		return
	}
	a.lock.Lock()
	a.evidence.Unasked = ""
	switch e := a.evidence; {
	case answer.took <= a.checker.timing.Answer:
		a.late = 0
	case e.Silent < enough && e.Unanswered+e.Slow > 0:
		a.late++
	}
	a.evidence.Last = answer.Answer
	a.evidence.Silent, a.evidence.Unanswered, a.evidence.Slow = 0, 0, 0
	if answer.Kind != Refused {
		a.heard = latest(a.heard, answer.at)
	}
	// What was sent before the probe is not waited for any longer.
	a.traffic.waiting = time.Time{}
	a.lock.Unlock()
	a.judge()
}

// unasked notes that the backend could not be asked. Doubts are not kept, because no answer can
// dispel them.
func (a *asker) unasked(problem string) {
	a.lock.Lock()
	e := &a.evidence
	told := e.Unasked != ""
	e.Unasked = problem
	if e.Silent < enough {
		e.Silent, e.Unanswered = 0, 0
	}
	a.lock.Unlock()
	if !told {
		a.checker.log.Error(nil, "A backend keeps its state", "Backend", a.backend.Address, "Reason", problem)
	}
	a.judge()
}

// unanswered notes a probe without an answer in the time that it was allowed; alive is true when the backend gave another
// sign of life meanwhile.
func (a *asker) unanswered(started time.Time, allowed time.Duration, alive bool) {
	c := a.checker
	late := c.late(started) || time.Since(started) > allowed+c.timing.Late
	others := c.othersHeard(a, started)
	a.lock.Lock()
	e := &a.evidence
	e.Unasked = ""
	switch {
	case alive:
		e.Slow++
		e.Silent, e.Unanswered = 0, 0
	case others && !late:
		e.Silent++
		e.Slow = 0
		e.Unanswered++
	default:
		// All are silent, or this machine is: nothing is known of this one in particular.
		if e.Silent < enough {
			e.Silent = 0
		}
		e.Slow = 0
		e.Unanswered++
	}
	a.lock.Unlock()
	a.judge()
}

// judge gives the backend its verdict and acts on a change.
func (a *asker) judge() {
	c := a.checker
	a.lock.Lock()
	a.evidence.Listed, a.evidence.Connections = a.backend.Listed(), a.backend.Established()
	verdict := Judge(a.evidence)
	silent := a.evidence.Silent >= enough
	before := a.backend.Judge(verdict)
	a.lock.Unlock()
	if before.State == verdict.State {
		return
	}
	reset := 0
	if silent {
		reset = a.backend.Reset()
		c.lock.Lock()
		c.resets += uint64(reset)
		c.lock.Unlock()
	}
	c.log.Info("A backend changed its state", "Backend", a.backend.Address, "Before", before.State.String(), "State", verdict.State.String(), "Reason", verdict.Reason, "ConnectionsReset", reset)
}

// pause waits until the next probe is due, or wanted sooner; false when the context ended.
func (a *asker) pause(ctx context.Context, started time.Time) bool {
	c := a.checker
	alert, none := c.mood()
	a.lock.Lock()
	if a.backend.Verdict().State == backends.Ready {
		a.troubled = 0
	} else {
		a.troubled++
	}
	next := c.timing.next(alert, none, a.troubled)
	a.lock.Unlock()
	// However often it is poked, a backend is not asked more often than this.
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
	case <-a.backend.Poked():
		a.noteSign()
	case <-a.nudge:
	case <-due.C:
	}
	return true
}

func (a *asker) hear(at time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.heard = latest(a.heard, at)
}

func latest(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}

func (a *asker) heardAt() time.Time {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.heard
}

// allowed is how long the next answer may take before its absence is a doubt.
func (a *asker) allowed() time.Duration {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.evidence.Unanswered > 0 {
		return a.checker.timing.Answer
	}
	return a.checker.timing.allowed(a.late)
}

// doubted is true when the last probe had no answer.
func (a *asker) doubted() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.evidence.Unanswered > 0 && a.evidence.Silent < enough
}

// fresh is true while the backend's silence is new. A backend that is silent for long wakes no
// other probes.
func (a *asker) fresh() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.evidence.Unanswered < long
}
