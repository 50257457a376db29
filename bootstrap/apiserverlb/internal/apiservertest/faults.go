package apiservertest

import (
	"net"
	"sync"
	"sync/atomic"
)

// gate makes callers wait while it is closed.
type gate struct {
	lock sync.Mutex
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.lock.Lock()
	defer g.lock.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

func (g *gate) lift() {
	g.lock.Lock()
	defer g.lock.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) pass() {
	g.lock.Lock()
	open := g.open
	g.lock.Unlock()
	<-open
}

// listener accepts connections that can be made to hang: the kernel goes on, the program does not.
type listener struct {
	*net.TCPListener
	gate *gate
	// accepted counts connections over all restarts.
	accepted *atomic.Int64

	lock sync.Mutex
	open map[*connection]struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	l.gate.pass()
	l.accepted.Add(1)
	c := &connection{accepted, l}
	l.lock.Lock()
	l.open[c] = struct{}{}
	l.lock.Unlock()
	return c, nil
}

// reset ends all connections as the kernel does for a process that was killed.
func (l *listener) reset() {
	l.lock.Lock()
	defer l.lock.Unlock()
	for c := range l.open {
		_ = c.SetLinger(0)
		_ = c.TCPConn.Close()
	}
	clear(l.open)
}

type connection struct {
	*net.TCPConn
	listener *listener
}

func (c *connection) Read(bytes []byte) (int, error) {
	c.listener.gate.pass()
	n, err := c.TCPConn.Read(bytes)
	c.listener.gate.pass()
	return n, err
}

func (c *connection) Write(bytes []byte) (int, error) {
	c.listener.gate.pass()
	return c.TCPConn.Write(bytes)
}

func (c *connection) Close() error {
	c.listener.gate.pass()
	c.listener.lock.Lock()
	delete(c.listener.open, c)
	c.listener.lock.Unlock()
	return c.TCPConn.Close()
}
