// Package wire counts the bytes that the load balancer itself sends and receives, without those of its clients.
package wire

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
)

// Counter counts bytes on the wire, with those of TLS, without those of TCP and IP.
type Counter struct {
	// Control is that of the net.Dialer.
	Control func(network, address string, c syscall.RawConn) error

	received, sent atomic.Uint64
}

// Received is the number of bytes received so far.
func (c *Counter) Received() uint64 { return c.received.Load() }

// Sent is the number of bytes sent so far.
func (c *Counter) Sent() uint64 { return c.sent.Load() }

// Dial opens a connection whose bytes are counted.
func (c *Counter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialled, err := (&net.Dialer{Control: c.Control}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &counted{dialled, c}, nil
}

type counted struct {
	net.Conn
	counter *Counter
}

// Read counts what it reads.
func (c *counted) Read(bytes []byte) (int, error) {
	n, err := c.Conn.Read(bytes)
	c.counter.received.Add(uint64(n))
	return n, err
}

// Write counts what it writes.
func (c *counted) Write(bytes []byte) (int, error) {
	n, err := c.Conn.Write(bytes)
	c.counter.sent.Add(uint64(n))
	return n, err
}
