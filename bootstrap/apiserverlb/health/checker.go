package health

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// Probe probes one backend. Send reports answers as they come, until the context ends: also after it returned. It
// reports nothing when there is no answer. Close closes the connection that it keeps.
type Probe interface {
	Send(ctx context.Context, report func(Answer))
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

	lock    sync.Mutex
	probers map[*backends.Backend]*prober
	probes  uint64
	resets  uint64
}

// New returns a Checker that probes nothing before Run.
func New(set *backends.Set, newProbe func(address string) Probe, timing Timing, log logr.Logger) *Checker {
	c := &Checker{
		set: set, newProbe: newProbe, timing: timing, log: log,
		lateness: NewLateness(timing.Tick, timing.Late), probers: map[*backends.Backend]*prober{},
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

// Alive is false when the checker is stuck; the watchdog reads it. A checker that is late is alive.
func (c *Checker) Alive() bool { return !c.lateness.Stuck() }

// follow starts and stops probers as backends come and go.
func (c *Checker) follow(ctx context.Context, running *sync.WaitGroup) {
	present := map[*backends.Backend]bool{}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, backend := range c.set.All() {
		present[backend] = true
		if c.probers[backend] != nil {
			continue
		}
		mine, stop := context.WithCancel(ctx)
		p := &prober{checker: c, backend: backend, probe: c.newProbe(backend.Address), stop: stop, answers: make(chan arrival, 16), nudge: make(chan struct{}, 1)}
		c.probers[backend] = p
		running.Go(func() { p.run(mine) })
	}
	for backend, p := range c.probers {
		if !present[backend] {
			p.stop()
			delete(c.probers, backend)
		}
	}
}

// look is called at every tick: it finds backends that do not answer traffic, and judges what changed
// without a probe.
func (c *Checker) look() {
	now := time.Now()
	c.lock.Lock()
	probers := make([]*prober, 0, len(c.probers))
	for _, p := range c.probers {
		probers = append(probers, p)
	}
	c.lock.Unlock()
	for _, p := range probers {
		p.look(now)
		p.judge()
	}
	c.set.Sweep()
}

// othersAlive reports whether another backend gave a sign of life since a moment.
func (c *Checker) othersAlive(than *prober, since time.Time) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, other := range c.probers {
		if other != than && !other.lastSignAt().Before(since) {
			return true
		}
	}
	return false
}

// nudgeOthers has the other backends probed at once: the silence of one counts only when others answer.
func (c *Checker) nudgeOthers(than *prober) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, other := range c.probers {
		if other == than {
			continue
		}
		select {
		case other.nudge <- struct{}{}:
		default:
		}
	}
}

// mood reports whether a living backend stopped answering (alert), and whether no backend is ready (none).
func (c *Checker) mood() (alert, none bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	none = true
	for backend, p := range c.probers {
		verdict := backend.Verdict()
		if verdict.State == backends.Ready {
			none = false
		}
		if verdict.State != backends.Dead && verdict.Suspect && p.fresh() {
			alert = true
		}
	}
	return alert, none
}
