package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// dialTimeout bounds connection and login.
	dialTimeout = 10 * time.Second
	// keepAliveInterval is how often a connection is checked.
	keepAliveInterval = 5 * time.Second
	// keepAlivePatience is how long the answer to a check may take.
	keepAlivePatience = 15 * time.Second
)

// Server is an SSH server and how to log in.
type Server struct {
	// Address is an IP address or DNS name, Port a TCP port.
	Address string
	Port    int
	// User logs in with Credentials.
	User        string
	Credentials *Credentials
	// HostKeys are the pinned keys, in the form that ParseHostKey reads. The server must prove one of
	// them.
	HostKeys []string
}

// String is user@address:port.
func (s *Server) String() string {
	if s.User == "" {
		return s.endpoint()
	}
	return s.User + "@" + s.endpoint()
}

func (s *Server) endpoint() string { return net.JoinHostPort(s.Address, strconv.Itoa(s.Port)) }

// Target is a host, and the bastion through which it is reached; nil for none.
type Target struct {
	Host    Server
	Bastion *Server
}

// Client is a connection to a host. It is safe for concurrent use.
type Client struct {
	// User is the user that commands run as.
	User string

	// server is the host as String writes it.
	server  string
	client  *ssh.Client
	bastion *ssh.Client
	closed  chan struct{}
	once    sync.Once
}

// Dial connects to a host. Every error that is not the context's is an *Error.
func Dial(ctx context.Context, target Target) (*Client, error) {
	dialer := &net.Dialer{}
	open := dialer.DialContext
	c := &Client{User: target.Host.User, server: target.Host.String(), closed: make(chan struct{})}
	if target.Bastion != nil {
		bastion, err := connect(ctx, target.Bastion, open)
		if err != nil {
			return nil, onBastion(err)
		}
		c.bastion = bastion
		open = bastion.DialContext
	}
	client, err := connect(ctx, &target.Host, open)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.client = client
	go c.keepAlive()
	return c, nil
}

func onBastion(err error) error {
	var failed *Error
	if errors.As(err, &failed) {
		failed.Bastion = true
	}
	return err
}

// connect logs in to one server over a connection that open makes.
func connect(ctx context.Context, server *Server, open func(ctx context.Context, network, address string) (net.Conn, error)) (*ssh.Client, error) {
	pins := &pinned{}
	for i, line := range server.HostKeys {
		key, err := ParseHostKey(line)
		if err != nil {
			return nil, &Error{Reason: CredentialsInvalid, Err: fmt.Errorf("hostKeys[%d] %w", i, err)}
		}
		pins.keys = append(pins.keys, key)
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := open(bounded, "tcp", server.endpoint())
	if err != nil {
		return nil, failure(ctx, server, pins, err)
	}
	// The handshake takes no context. It ends when its connection is closed.
	release := context.AfterFunc(bounded, func() { _ = connection.Close() })
	config := &ssh.ClientConfig{
		User:              server.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(server.Credentials.signer)},
		HostKeyCallback:   func(_ string, _ net.Addr, key ssh.PublicKey) error { return pins.check(key) },
		HostKeyAlgorithms: pins.algorithms(),
	}
	encrypted, channels, requests, err := ssh.NewClientConn(connection, server.endpoint(), config)
	if !release() {
		err = fmt.Errorf("the login took longer than %s: %w", dialTimeout, bounded.Err())
	}
	if err != nil {
		_ = connection.Close()
		return nil, failure(ctx, server, pins, err)
	}
	return ssh.NewClient(encrypted, channels, requests), nil
}

// failure finds the reason from how far the handshake came: the library has no error types for it.
func failure(ctx context.Context, server *Server, pins *pinned, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Reason: Away, Server: server.String(), Err: err}
	var network net.Error
	cut := errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case pins.refused != nil:
		e.Reason, e.Err = HostKeyMismatch, pins.refused
	case pins.accepted && !cut:
		e.Reason = AuthenticationFailed
	}
	return e
}

// keepAlive closes the connection of a silent peer, which TCP would notice only minutes later.
func (c *Client) keepAlive() {
	ticker := time.NewTicker(keepAliveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-ticker.C:
		}
		deadline := time.AfterFunc(keepAlivePatience, c.Close)
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		deadline.Stop()
		if err != nil {
			c.Close()
			return
		}
	}
}

// Close ends the connection and every command on it.
func (c *Client) Close() {
	c.once.Do(func() {
		close(c.closed)
		if c.client != nil {
			_ = c.client.Close()
		}
		if c.bastion != nil {
			_ = c.bastion.Close()
		}
	})
}
