package balancer

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// maxHello is how many bytes a client may send before a server has sent one so that another backend can still get the
// connection. A TLS record has 16 KiB.
const maxHello = 16 << 10

var (
	errSilent  = errors.New("no answer to a new connection")
	errClosed  = errors.New("a new connection was closed before an answer")
	errTooMuch = errors.New("the client sent more than a ClientHello before any backend was connected")
)

// Timing is how long the balancer waits.
type Timing struct {
	// ShortestHedge and LongestHedge bound how long a backend may be silent before another gets the same ClientHello. Between
	// them, the time is a multiple of the usual one.
	ShortestHedge time.Duration
	LongestHedge  time.Duration
	// GiveUp is how long a client waits for a byte from any backend before it is reset.
	GiveUp time.Duration
	// HalfClosed is how long one direction stays open after the other ended.
	HalfClosed time.Duration
	// Quiet is how long a connection must have carried nothing before a stop closes it.
	Quiet time.Duration
}

// DefaultTiming suits servers in the same data centre. A client's own TLS handshake times out after
// ten seconds in Go.
var DefaultTiming = Timing{
	ShortestHedge: 100 * time.Millisecond,
	LongestHedge:  time.Second,
	GiveUp:        10 * time.Second,
	HalfClosed:    time.Minute,
	Quiet:         100 * time.Millisecond,
}

// Counters count connections by what became of them, since the start.
type Counters struct {
	// Accepted are the clients' connections.
	Accepted atomic.Uint64
	// Failed are those that no backend had.
	Failed atomic.Uint64
	// FailedAttempts are attempts at a backend that ended without a byte from it.
	FailedAttempts atomic.Uint64
	// Hedged are attempts made because another backend was silent.
	Hedged atomic.Uint64
}

// Listener is where clients connect.
type Listener struct {
	*net.TCPListener
	// BackendPort is dialled instead of the backends' own port; empty for their own.
	BackendPort string
	// Service marks the address of the Service kubernetes. It is given back before other connections drain.
	Service bool
	// Gate bounds the clients' connections; nil for no bounds.
	Gate *Gate
}

// Balancer carries connections of listeners to backends.
type Balancer struct {
	backends *backends.Set
	timing   Timing
	log      logr.Logger
	dialer   net.Dialer
	hedging  *hedging
	counters Counters

	lock     sync.Mutex
	sessions map[*session]struct{}
	// empty is closed when the last session ends; nil while nobody waits for that.
	empty chan struct{}
}

// New returns a Balancer over the backends.
func New(set *backends.Set, timing Timing, log logr.Logger) *Balancer {
	return &Balancer{
		backends: set, timing: timing, log: log, hedging: newHedging(timing), sessions: map[*session]struct{}{},
		// A server that lost its power and came back resets a connection that it no longer knows when a keep-alive reaches it.
		dialer: net.Dialer{Control: set.NotItself, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 6}},
	}
}

// Counters returns the live counters.
func (b *Balancer) Counters() *Counters { return &b.counters }

// Connections is the number of open connections of clients.
func (b *Balancer) Connections() int {
	b.lock.Lock()
	defer b.lock.Unlock()
	return len(b.sessions)
}

// Serve accepts connections until the listener is closed.
func (b *Balancer) Serve(listener Listener) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		client, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Most often there are no file descriptors left. Connections that end free some.
			b.log.Error(err, "Cannot accept a connection", "Address", listener.Addr().String())
			<-time.After(pause)
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		if !listener.Gate.enter(client.RemoteAddr()) {
			b.refuse(listener, client)
			continue
		}
		b.counters.Accepted.Add(1)
		s := &session{balancer: b, port: listener.BackendPort, client: client, service: listener.Service, gate: listener.Gate}
		b.add(s)
		// This runs here because the session's goroutine must not need a deep stack.
		s.open()
		go s.serve()
	}
}

// refuse resets a client that is one too many, so that it sees at once that it has no connection.
func (b *Balancer) refuse(listener Listener, client *net.TCPConn) {
	if listener.Gate.tell(time.Now()) {
		b.log.Info("Refused a connection: too many are open at this listener, in all or from this client's address",
			"Address", listener.Addr().String(), "Client", client.RemoteAddr().String())
	}
	_ = client.SetLinger(0)
	_ = client.Close()
}

// ResetService resets the connections to the Service's address.
func (b *Balancer) ResetService() {
	for _, s := range b.all() {
		if s.service {
			s.reset()
		}
	}
}

// Drain closes each connection once it is quiet, and all when the context ends. It returns when none is left. Close the
// listeners before.
func (b *Balancer) Drain(ctx context.Context) {
	empty := b.whenEmpty()
	seen := map[*session]uint32{}
	ticker := time.NewTicker(b.timing.Quiet)
	defer ticker.Stop()
	for {
		select {
		case <-empty:
			return
		case <-ctx.Done():
			for _, s := range b.all() {
				s.reset()
			}
			<-empty
			return
		case <-ticker.C:
			for _, s := range b.all() {
				moved := s.moved.Load()
				if last, ok := seen[s]; ok && last == moved {
					s.reset()
				}
				seen[s] = moved
			}
		}
	}
}

func (b *Balancer) add(s *session) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.sessions[s] = struct{}{}
}

func (b *Balancer) remove(s *session) {
	b.lock.Lock()
	defer b.lock.Unlock()
	delete(b.sessions, s)
	s.gate.leave(s.client.RemoteAddr())
	if len(b.sessions) == 0 && b.empty != nil {
		close(b.empty)
		b.empty = nil
	}
}

func (b *Balancer) all() []*session {
	b.lock.Lock()
	defer b.lock.Unlock()
	all := make([]*session, 0, len(b.sessions))
	for s := range b.sessions {
		all = append(all, s)
	}
	return all
}

func (b *Balancer) whenEmpty() <-chan struct{} {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.empty == nil {
		b.empty = make(chan struct{})
	}
	empty := b.empty
	if len(b.sessions) == 0 {
		close(b.empty)
		b.empty = nil
	}
	return empty
}
