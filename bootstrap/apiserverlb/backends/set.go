package backends

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// ErrItself says that a backend is not dialled because its address is this program's own: the program would dial itself
// without end.
var ErrItself = errors.New("it is this program's own address")

// ErrEmpty is returned for a list without an address: an empty set of backends is never accepted.
var ErrEmpty = errors.New("the list of backends is empty")

// Set is the set of backends. It is safe for concurrent use.
type Set struct {
	// own are the addresses of this load balancer itself.
	own []netip.AddrPort

	lock      sync.RWMutex
	seeds     []string
	confirmed bool
	backends  []*Backend
	changed   chan struct{}
}

// NewSet returns the set of seeds and of the addresses that an earlier run kept. own are addresses at
// which this program listens itself: a backend of that address would be a loop.
func NewSet(seeds, kept []string, own []netip.AddrPort) (*Set, error) {
	s := &Set{own: own, changed: make(chan struct{})}
	s.seeds = s.clean(seeds)
	all := s.clean(append(slices.Clone(seeds), kept...))
	if len(all) == 0 {
		return nil, fmt.Errorf("seeds and the kept list together: %w", ErrEmpty)
	}
	s.apply(all)
	return s, nil
}

// Confirm makes addresses, which the EndpointSlice lists, the present members. It returns ErrEmpty,
// and changes nothing, when no usable address is left.
func (s *Set) Confirm(addresses []string) error {
	listed := s.clean(addresses)
	if len(listed) == 0 {
		return ErrEmpty
	}
	s.lock.Lock()
	s.confirmed = true
	s.lock.Unlock()
	s.apply(listed)
	return nil
}

// Confirmed reports whether the members were read from the EndpointSlice in this run.
func (s *Set) Confirmed() bool {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.confirmed
}

// All returns the backends by address.
func (s *Set) All() []*Backend {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return slices.Clone(s.backends)
}

// Changed is closed when the next change of the members has happened.
func (s *Set) Changed() <-chan struct{} {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.changed
}

// Sweep forgets backends that are neither listed nor seeds and carry no connection.
func (s *Set) Sweep() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.change(slices.DeleteFunc(slices.Clone(s.backends), func(b *Backend) bool {
		return !b.Listed() && !b.Seed() && b.Idle()
	}))
}

// Candidates returns all backends in the order in which a new connection tries them, and how many of the first are equally
// good. Ready backends come first, those with the fewest connections to port before others. When none is ready, every backend
// is tried. port is empty for the API server's own. Connections to other ports do not count: so a konnectivity agent, which
// wants a connection to each server, gets those that it lacks.
func (s *Set) Candidates(port string) (ordered []*Backend, good int) {
	s.lock.RLock()
	backends := s.backends
	s.lock.RUnlock()
	ranks := make([]rank, len(backends))
	for i, b := range backends {
		ranks[i] = rank{b, class(b.Verdict(), b.Listed()), b.connectionsTo(port), rand.Uint32()}
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.connections, b.connections), cmp.Compare(a.tie, b.tie))
	})
	ordered = make([]*Backend, len(ranks))
	for i, r := range ranks {
		ordered[i] = r.backend
		if r.class <= suspect {
			good = i + 1
		}
	}
	if good == 0 {
		good = len(ordered)
	}
	return ordered, good
}

type rank struct {
	backend     *Backend
	class       int
	connections int
	tie         uint32
}

// Classes of candidates, the best first.
const (
	ready = iota
	suspect
	// fallback is a seed that answers but is not listed.
	fallback
	leaving
	last
)

func class(verdict Verdict, listed bool) int {
	switch {
	case verdict.State == Ready && !verdict.Suspect:
		return ready
	case verdict.State == Ready:
		return suspect
	case verdict.State == Draining && verdict.Answers && !listed:
		return fallback
	case verdict.State == Draining:
		return leaving
	}
	return last
}

func (s *Set) apply(listed []string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	next := slices.Clone(s.backends)
	for _, address := range slices.Concat(listed, s.seeds) {
		if !slices.ContainsFunc(next, func(b *Backend) bool { return b.Address == address }) {
			next = append(next, newBackend(address))
		}
	}
	for _, b := range next {
		is := slices.Contains(listed, b.Address)
		b.lock.Lock()
		was := b.listed
		b.listed, b.seed = is, slices.Contains(s.seeds, b.Address)
		b.lock.Unlock()
		if was != is {
			b.Poke()
		}
	}
	s.change(next)
}

// change sets the members and wakes the goroutines that wait for a change.
func (s *Set) change(next []*Backend) {
	slices.SortFunc(next, func(a, b *Backend) int { return strings.Compare(a.Address, b.Address) })
	if slices.Equal(next, s.backends) {
		return
	}
	s.backends = next
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Set) clean(addresses []string) []string {
	cleaned := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool {
		return a == "" || s.isOwn(a)
	})
	slices.Sort(cleaned)
	return slices.Compact(cleaned)
}

// NotItself is the Control of a net.Dialer that dials backends. It returns ErrItself for an address of this program. It is
// needed because a backend may be a name, whose address is known only when it is dialled.
func (s *Set) NotItself(_, address string, _ syscall.RawConn) error {
	if s.isOwn(address) {
		return ErrItself
	}
	return nil
}

func (s *Set) isOwn(address string) bool {
	parsed, err := netip.ParseAddrPort(address)
	return err == nil && slices.Contains(s.own, netip.AddrPortFrom(parsed.Addr().Unmap(), parsed.Port()))
}
