package health

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// Probe asks one backend. It reports answers as they come, also after it returned, until the context
// ends; silence is reporting nothing. Close frees what it keeps.
type Probe interface {
	Ask(ctx context.Context, report func(Answer))
	Close()
}

// Checker probes all backends of a set and judges them.
type Checker struct {
	set      *backends.Set
	newProbe func(address string) Probe
	timing   Timing
	lateness *Lateness
	log      logr.Logger
	// late reports whether timers were late since a moment.
	late func(since time.Time) bool

	lock   sync.Mutex
	askers map[*backends.Backend]*asker
	probes uint64
	resets uint64
}

// New returns a Checker that probes nothing before Run.
func New(set *backends.Set, newProbe func(address string) Probe, timing Timing, log logr.Logger) *Checker {
	c := &Checker{
		set: set, newProbe: newProbe, timing: timing, log: log,
		lateness: NewLateness(timing.Tick, timing.Late), askers: map[*backends.Backend]*asker{},
	}
	c.late = c.lateness.Since
	return c
}

// Run probes until the context ends.
func (c *Checker) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.lateness.Run(ctx, c.look) })
	for {
		changed := c.set.Changed()
		c.follow(ctx, &running)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Probes is the number of probes sent so far, and Resets that of connections closed because their
// backend was dead.
func (c *Checker) Probes() uint64 { return c.read(&c.probes) }

// Resets is the number of connections that were reset because their backend was dead.
func (c *Checker) Resets() uint64 { return c.read(&c.resets) }

func (c *Checker) read(counter *uint64) uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	return *counter
}

// Alive is false when the checker is stuck: a watchdog's question. One that is late is alive.
func (c *Checker) Alive() bool { return !c.lateness.Stuck() }

// follow starts and stops askers as backends come and go.
func (c *Checker) follow(ctx context.Context, running *sync.WaitGroup) {
	present := map[*backends.Backend]bool{}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, backend := range c.set.All() {
		present[backend] = true
		if c.askers[backend] != nil {
			continue
		}
		mine, stop := context.WithCancel(ctx)
		a := &asker{checker: c, backend: backend, probe: c.newProbe(backend.Address), stop: stop, answers: make(chan arrival, 16), nudge: make(chan struct{}, 1)}
		c.askers[backend] = a
		running.Go(func() { a.run(mine) })
	}
	for backend, a := range c.askers {
		if !present[backend] {
			a.stop()
			delete(c.askers, backend)
		}
	}
}

// look is called at every tick: it finds backends that do not answer traffic, and judges what changed
// without a probe.
func (c *Checker) look() {
	now := time.Now()
	c.lock.Lock()
	askers := make([]*asker, 0, len(c.askers))
	for _, a := range c.askers {
		askers = append(askers, a)
	}
	c.lock.Unlock()
	for _, a := range askers {
		a.look(now)
		a.judge()
	}
	c.set.Sweep()
}

// othersHeard reports whether another backend gave a sign of life since a moment.
func (c *Checker) othersHeard(than *asker, since time.Time) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, other := range c.askers {
		if other != than && !other.heardAt().Before(since) {
			return true
		}
	}
	return false
}

// nudgeOthers has the other backends asked too: the silence of one means something only when others
// answer.
func (c *Checker) nudgeOthers(than *asker) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, other := range c.askers {
		if other == than {
			continue
		}
		select {
		case other.nudge <- struct{}{}:
		default:
		}
	}
}

// mood is whether a living backend stopped to answer, and whether none is ready.
func (c *Checker) mood() (alert, none bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	none = true
	for backend, a := range c.askers {
		verdict := backend.Verdict()
		if verdict.State == backends.Ready {
			none = false
		}
		if verdict.State != backends.Dead && verdict.Suspect && a.fresh() {
			alert = true
		}
	}
	return alert, none
}
