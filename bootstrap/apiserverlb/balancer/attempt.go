package balancer

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// attempt tries to give a session to one backend, and carries the session's bytes when it wins.
type attempt struct {
	session *session
	backend *backends.Backend
	// server is nil until it is connected. The session's lock guards it.
	server *net.TCPConn
	// silent is true once a wait ended without a byte. The session's lock guards it.
	silent bool
	// abandoned is set when another attempt won. The session's lock guards it.
	abandoned bool
	cancel    context.CancelFunc
	// sentAt is when the server was sent the first bytes of the ClientHello.
	sentAt time.Time
	// done is closed when the server's direction has ended.
	done chan struct{}
}

// run connects, and starts another goroutine to carry the bytes: this one needs a large stack to dial, which would stay as
// long as the connection.
func (a *attempt) run() {
	from, err := a.connect()
	if err != nil {
		a.backend.Release(a)
		a.session.lost(a, err)
		return
	}
	go a.serve(from)
}

// serve waits for the server's first byte and carries what follows.
func (a *attempt) serve(from *source) {
	defer a.backend.Release(a)
	defer close(a.done)
	defer func() { _ = a.server.Close() }()
	bytes, err := from.next()
	if err != nil {
		// A session that is committed to this backend ends with it. Any other one goes on to the next backend.
		a.session.serverEnded(a, err)
		if errors.Is(err, io.EOF) {
			err = errClosed
		}
		a.session.lost(a, err)
		return
	}
	if !a.session.win(a) {
		from.release()
		return
	}
	a.carry(from, bytes)
}

// connect dials the backend and gives it what the client has said so far.
func (a *attempt) connect() (*source, error) {
	b := a.session.balancer
	ctx, cancel := context.WithTimeout(context.Background(), b.timing.GiveUp)
	defer cancel()
	s := a.session
	s.lock.Lock()
	a.cancel = cancel
	abandoned := a.abandoned
	s.lock.Unlock()
	if abandoned {
		return nil, net.ErrClosed
	}
	dialled, err := b.dialer.DialContext(ctx, "tcp", a.address())
	if err != nil {
		return nil, err
	}
	server := dialled.(*net.TCPConn)
	from, err := newSource(server)
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if a.abandoned || s.opening == nil {
		_ = server.Close()
		return nil, net.ErrClosed
	}
	a.server, a.cancel, a.done = server, nil, make(chan struct{})
	if len(s.opening.hello) > 0 {
		a.offer(s.opening.hello)
	}
	return from, nil
}

// offer sends bytes of the ClientHello to the server. A failure shows when nothing comes back. The session's lock is held.
func (a *attempt) offer(bytes []byte) {
	if a.sentAt.IsZero() {
		a.sentAt = time.Now()
	}
	_ = a.send(bytes)
}

func (a *attempt) address() string {
	if a.session.port == "" {
		return a.backend.Address
	}
	host, _, _ := net.SplitHostPort(a.backend.Address)
	return net.JoinHostPort(host, a.session.port)
}

// carry brings the server's bytes to the client until either ends.
func (a *attempt) carry(from *source, bytes []byte) {
	s := a.session
	for {
		s.moved.Add(1)
		if s.port == "" {
			a.backend.CountReceived(len(bytes))
		}
		_, err := s.client.Write(bytes)
		from.release()
		if err != nil {
			s.end(err)
			return
		}
		if bytes, err = from.next(); err != nil {
			s.serverEnded(a, err)
			return
		}
	}
}

// serverEnded passes the server's end on to the client.
func (s *session) serverEnded(a *attempt, err error) {
	s.lock.Lock()
	chosen := s.server == a && !s.ended
	s.lock.Unlock()
	if !chosen {
		return
	}
	if !errors.Is(err, io.EOF) {
		if isReset(err) {
			a.backend.Fail(err)
		}
		s.end(err)
		return
	}
	_ = s.client.CloseWrite()
	_ = s.client.SetReadDeadline(time.Now().Add(s.balancer.timing.HalfClosed))
}

// send writes to the server, and counts the bytes only for the API server's own port: other ports say nothing of its health.
func (a *attempt) send(bytes []byte) error {
	if a.session.port == "" {
		a.backend.CountSent(len(bytes))
	}
	_, err := a.server.Write(bytes)
	return err
}

// abandon ends an attempt that lost. The session's lock is held. Silence counts as a failure only here: a backend that
// wins after a silence was only slow.
func (a *attempt) abandon() {
	a.abandoned = true
	if a.silent {
		a.backend.Fail(errSilent)
	}
	if a.cancel != nil {
		a.cancel()
	}
	if a.server != nil {
		_ = a.server.Close()
	}
}

// Port is the session's.
func (a *attempt) Port() string { return a.session.port }

// Reset is called when the backend is dead. It resets the session that this attempt has won; a session that is still being
// opened goes on with other backends.
func (a *attempt) Reset() {
	s := a.session
	s.lock.Lock()
	if s.server != a {
		defer s.lock.Unlock()
		if s.opening != nil {
			a.abandon()
		}
		return
	}
	s.lock.Unlock()
	s.reset()
}
