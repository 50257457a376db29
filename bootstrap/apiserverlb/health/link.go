package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// link is a kept connection.
type link struct {
	connection *tls.Conn
	// http2 is nil when the server speaks HTTP/1.1 only.
	http2 *http2.ClientConn
	http1 *bufio.Reader
	// turn is held by the request that is on an HTTP/1.1 connection. Several probes may wait for one new connection.
	turn chan struct{}
	// certified is true when the connection could show a client certificate.
	certified bool
	// waiting is how many requests were sent since the last answer.
	waiting int
}

// usable is false for a connection whose last request is unanswered: perhaps only the connection hangs, not the server.
func (l *link) usable() bool {
	return l.waiting == 0 && (l.http2 == nil || l.http2.CanTakeNewRequest())
}

// newLink makes a connection, with the client certificate unless the server refuses it.
func (r *Readyz) newLink(ctx context.Context) (*link, error) {
	config, err := r.tls()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotProbed, err)
	}
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	r.lock.Lock()
	if time.Now().Before(r.anonymousUntil) {
		config.Certificates = nil
	}
	r.lock.Unlock()
	l, err := r.open(ctx, config)
	if isAlert(err) && len(config.Certificates) > 0 {
		config.Certificates = nil
		return r.open(ctx, config)
	}
	return l, err
}

func (r *Readyz) open(ctx context.Context, config *tls.Config) (*link, error) {
	dialled, err := r.traffic.Dial(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	connection := tls.Client(dialled, config)
	if err := connection.HandshakeContext(ctx); err != nil {
		_ = dialled.Close()
		return nil, err
	}
	l := &link{connection: connection, certified: len(config.Certificates) > 0}
	if connection.ConnectionState().NegotiatedProtocol != "h2" {
		l.http1, l.turn = bufio.NewReaderSize(connection, longestBody), make(chan struct{}, 1)
		return l, nil
	}
	l.http2, err = (&http2.Transport{DisableCompression: true}).NewClientConn(connection)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	return l, nil
}

// isAlert reports whether the server ended a handshake with an alert of TLS.
func isAlert(err error) bool {
	var problem *net.OpError
	return errors.As(err, &problem) && problem.Op == "remote error"
}

// roundTrip1 is for servers without HTTP/2. Its caller has the turn until the answer is read.
func (l *link) roundTrip1(ctx context.Context, request *http.Request) (*http.Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = l.connection.SetDeadline(deadline)
	}
	if err := request.Write(l.connection); err != nil {
		return nil, err
	}
	return http.ReadResponse(l.http1, request)
}
