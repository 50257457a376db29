package backends

import (
	"sync"
	"sync/atomic"
	"time"
)

// State says what happens with new and existing connections of a backend.
type State int

const (
	// Ready takes new connections.
	Ready State = iota
	// Draining takes no new connections while another backend is ready; existing ones stay.
	Draining
	// Dead does not answer; existing connections were closed, so that clients come back at once.
	Dead
)

// String is the state as people and metrics read it.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Draining:
		return "draining"
	default:
		return "dead"
	}
}

// Verdict is the judged state of a backend.
type Verdict struct {
	State State
	// Reason says why it is in this state, for people.
	Reason string
	// Suspect is a ready backend whose last probe is unanswered: it is chosen last among the ready.
	Suspect bool
	// Answers is true when the backend served the last request for /readyz with success.
	Answers bool
}

// Connection is an open connection that a backend carries.
type Connection interface {
	// Port is the port of the backend's host that it goes to; empty for the API server's own.
	Port() string
	// Reset closes the connection at once, with a TCP reset to its client.
	Reset()
}

// Backend is one API server, and the other ports of its host. Counters of bytes are free of locks: they
// are on the path of every byte.
type Backend struct {
	// Address is host:port.
	Address string

	sent        atomic.Uint64
	received    atomic.Uint64
	established atomic.Int64
	// poke wakes the goroutine that probes this backend.
	poke chan struct{}

	lock    sync.Mutex
	verdict Verdict
	since   time.Time
	// problem is what went wrong last; failed is when.
	problem string
	failed  time.Time
	listed  bool
	seed    bool
	// carried has the backend's connections, and whether each is established.
	carried map[Connection]bool
	// connections counts the carried connections of each port.
	connections map[string]int
}

func newBackend(address string) *Backend {
	return &Backend{
		Address: address,
		poke:    make(chan struct{}, 1),
		verdict: Verdict{Reason: "not probed yet"},
		since:   time.Now(),
		carried: map[Connection]bool{}, connections: map[string]int{},
	}
}

// CountSent adds bytes that went to the API server.
func (b *Backend) CountSent(bytes int) { b.sent.Add(uint64(bytes)) }

// CountReceived adds bytes that came from the API server: each is a sign of its life.
func (b *Backend) CountReceived(bytes int) { b.received.Add(uint64(bytes)) }

// Sent is the number of bytes that went to the API server.
func (b *Backend) Sent() uint64 { return b.sent.Load() }

// Received is the number of bytes that came from the API server.
func (b *Backend) Received() uint64 { return b.received.Load() }

// Connections is the number of connections to the API server, and of those being opened.
func (b *Backend) Connections() int { return b.connectionsTo("") }

// connectionsTo is the number of connections to a port of the backend's host.
func (b *Backend) connectionsTo(port string) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.connections[port]
}

// Idle reports whether the backend carries no connection to any port.
func (b *Backend) Idle() bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	return len(b.carried) == 0
}

// Established is the number of connections to the API server, without those being opened.
func (b *Backend) Established() int { return int(b.established.Load()) }

// Poke has the backend probed soon: something looks wrong with it.
func (b *Backend) Poke() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// Poked receives when the backend should be probed soon.
func (b *Backend) Poked() <-chan struct{} { return b.poke }

// Fail notes what went wrong with a connection to the backend and has it probed. It changes no
// state: one failure is not evidence for others.
func (b *Backend) Fail(err error) {
	b.lock.Lock()
	b.problem, b.failed = err.Error(), time.Now()
	b.lock.Unlock()
	b.Poke()
}

// Carry counts a connection as carried by the backend, until Release.
func (b *Backend) Carry(connection Connection) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.carried[connection] = false
	b.connections[connection.Port()]++
}

// Establish notes that a carried connection is open now.
func (b *Backend) Establish(connection Connection) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if established, carried := b.carried[connection]; carried && !established {
		b.carried[connection] = true
		b.countEstablished(connection, 1)
	}
}

// countEstablished leaves out connections to other ports: they say nothing of the API server.
func (b *Backend) countEstablished(connection Connection, change int64) {
	if connection.Port() == "" {
		b.established.Add(change)
	}
}

// Release ends Carry.
func (b *Backend) Release(connection Connection) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.carried[connection] {
		b.countEstablished(connection, -1)
	}
	delete(b.carried, connection)
	b.connections[connection.Port()]--
}

// Reset closes all connections that the backend carries, to all ports, and returns their number.
func (b *Backend) Reset() int {
	b.lock.Lock()
	carried := make([]Connection, 0, len(b.carried))
	for connection := range b.carried {
		carried = append(carried, connection)
	}
	b.lock.Unlock()
	for _, connection := range carried {
		connection.Reset()
	}
	return len(carried)
}

// Judge gives the backend a verdict and returns the one before.
func (b *Backend) Judge(verdict Verdict) (before Verdict) {
	b.lock.Lock()
	defer b.lock.Unlock()
	before = b.verdict
	b.verdict = verdict
	if before.State != verdict.State {
		b.since = time.Now()
	}
	if verdict.State != Ready {
		b.problem, b.failed = verdict.Reason, time.Now()
	}
	return before
}

// Verdict is the present verdict on the backend.
func (b *Backend) Verdict() Verdict {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.verdict
}

// Listed reports whether the backend is a member by the present list.
func (b *Backend) Listed() bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.listed
}

// Seed reports whether the backend is in the configuration.
func (b *Backend) Seed() bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.seed
}

// Snapshot is a backend at one moment.
type Snapshot struct {
	Address string
	Verdict Verdict
	Since   time.Time
	Listed  bool
	Seed    bool
	// Connections are those to all ports.
	Connections int
	Sent        uint64
	Received    uint64
	// LastError is the last thing that went wrong with the backend, empty when nothing did.
	LastError string
	// LastErrorTime is when that was; zero when nothing did.
	LastErrorTime time.Time
}

// Snapshot returns what is known of the backend now.
func (b *Backend) Snapshot() Snapshot {
	b.lock.Lock()
	defer b.lock.Unlock()
	return Snapshot{
		Address: b.Address, Verdict: b.verdict, Since: b.since, Listed: b.listed, Seed: b.seed,
		Connections: len(b.carried), Sent: b.Sent(), Received: b.Received(), LastError: b.problem, LastErrorTime: b.failed,
	}
}
