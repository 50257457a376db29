package balancer

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// refusalsInterval is how often the log names a client that was refused.
const refusalsInterval = time.Minute

// Gate bounds the open connections of a listener's clients, so that file descriptors are left for other listeners. A nil
// Gate has no bounds: clients may enter and leave it, and it has no State.
type Gate struct {
	all, perSource int

	lock    sync.Mutex
	open    int
	sources map[netip.Addr]int
	refused uint64
	// told is when the log last named a refused client.
	told time.Time
}

// NewGate returns a Gate that bounds all connections, and those of one source address; zero for no bound.
func NewGate(all, perSource int) *Gate {
	return &Gate{all: all, perSource: perSource, sources: map[netip.Addr]int{}}
}

// State is how many connections are open and how many were refused since the start.
func (g *Gate) State() (open int, refused uint64) {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.open, g.refused
}

// enter counts a client, unless that is one too many.
func (g *Gate) enter(client net.Addr) bool {
	if g == nil {
		return true
	}
	source := sourceOf(client)
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.all > 0 && g.open >= g.all || g.perSource > 0 && g.sources[source] >= g.perSource {
		g.refused++
		return false
	}
	g.open++
	if g.perSource > 0 {
		g.sources[source]++
	}
	return true
}

// leave ends enter.
func (g *Gate) leave(client net.Addr) {
	if g == nil {
		return
	}
	source := sourceOf(client)
	g.lock.Lock()
	defer g.lock.Unlock()
	g.open--
	if g.perSource == 0 {
		return
	}
	g.sources[source]--
	if g.sources[source] == 0 {
		delete(g.sources, source)
	}
}

// tell reports whether the log should name this refusal: only some are named, so that they do not fill the log.
func (g *Gate) tell(now time.Time) bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	if !g.told.IsZero() && now.Sub(g.told) < refusalsInterval {
		return false
	}
	g.told = now
	return true
}

func sourceOf(client net.Addr) netip.Addr {
	return client.(*net.TCPAddr).AddrPort().Addr().Unmap()
}
