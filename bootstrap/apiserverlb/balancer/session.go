package balancer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// session is one client's connection, from accept to close.
type session struct {
	balancer *Balancer
	// port is the listener's BackendPort.
	port   string
	client *net.TCPConn
	// service is true when the client connected to the Service's address.
	service bool
	// gate counted the client, and is left at the end.
	gate *Gate

	lock sync.Mutex
	// opening is nil once a backend has the connection, or none can.
	opening *opening
	// server is the attempt that has the connection.
	server *attempt
	ended  bool
	// moved changes with every byte of the client or the server.
	moved atomic.Uint32
}

// opening is what a session needs until a backend has it.
type opening struct {
	// started is when the client was accepted; later, when it sent its first bytes.
	started time.Time
	// hello are the client's bytes so far.
	hello []byte
	// untried are the backends that were not tried yet. The first ones, as many as are good, may be used to hedge.
	untried []*backends.Backend
	good    int
	// underway are the attempts that may still win.
	underway []*attempt
	hedge    *time.Timer
	wait     time.Duration
	// problem is the error of the last failed attempt.
	problem error
}

// serve carries a client's connection until it ends. It sends the client's bytes to the server; a goroutine of the attempt
// that won brings back the server's.
func (s *session) serve() {
	defer s.balancer.remove(s)
	defer s.end(nil)
	from, err := newSource(s.client)
	if err != nil {
		return
	}
	for {
		bytes, err := from.next()
		if err == nil {
			err = s.forward(bytes)
			from.release()
		}
		if err != nil {
			s.clientEnded(err)
			return
		}
	}
}

// open begins with the best backend.
func (s *session) open() {
	candidates, good := s.balancer.backends.Candidates(s.port)
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.ended {
		return
	}
	s.opening = &opening{started: time.Now(), untried: candidates, good: good, wait: s.balancer.hedging.wait()}
	s.opening.hedge = time.AfterFunc(s.opening.wait, s.hedge)
	s.tryNext()
}

// tryNext starts an attempt at the next backend; false when all were tried. The lock is held.
func (s *session) tryNext() bool {
	o := s.opening
	if len(o.untried) == 0 {
		return false
	}
	a := &attempt{session: s, backend: o.untried[0]}
	o.untried, o.good = o.untried[1:], o.good-1
	o.underway = append(o.underway, a)
	a.backend.Carry(a)
	go a.run()
	return true
}

// hedge is called when a wait is over without a byte from a server.
func (s *session) hedge() {
	s.lock.Lock()
	defer s.lock.Unlock()
	o := s.opening
	if o == nil || s.ended {
		return
	}
	now := time.Now()
	if now.Sub(o.started) > s.balancer.timing.GiveUp {
		s.fail(errSilent)
		return
	}
	// A server sends nothing before the client has sent something, so its silence means nothing yet.
	waiting := len(o.hello) > 0
	for _, a := range o.underway {
		waiting = waiting || a.server == nil
	}
	if !waiting {
		o.hedge.Reset(s.balancer.timing.GiveUp)
		return
	}
	for _, a := range o.underway {
		a.silent = true
		a.backend.Poke()
	}
	if o.good > 0 && s.balancer.hedging.take(now) && s.tryNext() {
		s.balancer.counters.Hedged.Add(1)
	}
	o.wait *= 2
	o.hedge.Reset(o.wait)
}

// forward sends bytes of the client to its server, or to all servers that may become it.
func (s *session) forward(bytes []byte) error {
	s.moved.Add(1)
	s.lock.Lock()
	o := s.opening
	if o == nil {
		server, ended := s.server, s.ended
		s.lock.Unlock()
		if ended || server == nil {
			return net.ErrClosed
		}
		return server.send(bytes)
	}
	defer s.lock.Unlock()
	if len(o.hello) == 0 {
		// The wait for an answer begins when the client has sent something.
		o.started = time.Now()
		o.hedge.Reset(o.wait)
		o.hello = (*hellos.Get().(*[]byte))[:0]
	}
	o.hello = append(o.hello, bytes...)
	for _, a := range o.underway {
		if a.server != nil {
			a.offer(bytes)
		}
	}
	if len(o.hello) > maxHello {
		return s.commit()
	}
	return nil
}

// commit gives the connection to a connected backend although it has not sent a byte: the client has
// sent more than a ClientHello. Without a connected backend the client is reset at once, because a
// backend that connects later must not get the bytes of a session that was given up. The lock is held.
func (s *session) commit() error {
	for _, a := range s.opening.underway {
		if a.server != nil {
			s.choose(a)
			return nil
		}
	}
	s.fail(errTooMuch)
	return errTooMuch
}

// win is called by an attempt that got a byte. It reports whether the attempt has the session now.
func (s *session) win(a *attempt) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.opening == nil || s.ended {
		return s.server == a && !s.ended
	}
	if !a.sentAt.IsZero() {
		s.balancer.hedging.answered(time.Since(a.sentAt))
	}
	s.choose(a)
	return true
}

// choose ends the opening. The lock is held.
func (s *session) choose(a *attempt) {
	s.server = a
	a.backend.Establish(a)
	o := s.opening
	s.opening = nil
	o.close()
	for _, other := range o.underway {
		if other != a {
			other.abandon()
		}
	}
}

// close frees what an opening holds.
func (o *opening) close() {
	o.hedge.Stop()
	if cap(o.hello) > 0 {
		hello := o.hello
		o.hello = nil
		hellos.Put(&hello)
	}
}

// hellos are buffers of ClientHellos. Most ClientHellos have less than 2 KiB.
var hellos = sync.Pool{New: func() any { return new(make([]byte, 0, 2<<10)) }}

// lost is called by an attempt that failed without a byte from its server. It starts the next one at once.
func (s *session) lost(a *attempt, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	o := s.opening
	if o == nil || s.ended {
		return
	}
	a.backend.Fail(err)
	o.problem = err
	for i, other := range o.underway {
		if other == a {
			o.underway = append(o.underway[:i], o.underway[i+1:]...)
			break
		}
	}
	s.balancer.counters.FailedAttempts.Add(1)
	if !s.tryNext() && len(o.underway) == 0 {
		s.fail(fmt.Errorf("all backends failed, the last with: %w", err))
	}
}

// fail resets the client: no backend can have it. The lock is held.
func (s *session) fail(err error) {
	s.balancer.counters.Failed.Add(1)
	s.balancer.log.V(2).Info("No backend for a connection", "Client", s.client.RemoteAddr().String(), "Reason", err.Error())
	s.close(true)
}

// clientEnded passes the client's end on to its server.
func (s *session) clientEnded(err error) {
	s.lock.Lock()
	server := s.server
	s.lock.Unlock()
	if server == nil || !errors.Is(err, io.EOF) {
		s.end(err)
		return
	}
	_ = server.server.CloseWrite()
	_ = server.server.SetReadDeadline(time.Now().Add(s.balancer.timing.HalfClosed))
	// The other direction ends the session.
	<-server.done
}

// end closes both connections. err decides whether by a reset.
func (s *session) end(err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.close(isReset(err))
}

// close closes everything once. The lock is held.
func (s *session) close(reset bool) {
	if s.ended {
		return
	}
	s.ended = true
	if o := s.opening; o != nil {
		s.opening = nil
		o.close()
		for _, a := range o.underway {
			a.abandon()
		}
	}
	if reset {
		_ = s.client.SetLinger(0)
	}
	_ = s.client.Close()
	if s.server != nil {
		if reset {
			_ = s.server.server.SetLinger(0)
		}
		_ = s.server.server.Close()
	}
}

// reset closes everything with a reset.
func (s *session) reset() { s.end(syscall.ECONNRESET) }

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ETIMEDOUT) ||
		errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
