package health

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
)

// longestBody is how much of an answer of /readyz is read.
const longestBody = 4 << 10

// anonymity is how long no certificate is shown to a server that refused it. After that it may accept it, or the machine
// may have another one.
const anonymity = time.Minute

// errRefused says that the server refused the client certificate, and so did not answer the probe.
var errRefused = errors.New("the server refuses the client certificate")

// errNotProbed says that no probe was sent at all.
var errNotProbed = errors.New("cannot be probed")

// Readyz requests /readyz of an API server over one TLS connection that it keeps. kube-apiserver keeps connections only
// of clients with a certificate (feature gate UnauthenticatedHTTP2DOSMitigation). When it refuses the certificate, Readyz
// repeats the request without one: that never counts against the server.
type Readyz struct {
	address string
	tls     func() (*tls.Config, error)
	timing  Timing
	traffic *wire.Counter

	lock    sync.Mutex
	current *link
	// connecting is closed when a connection under way is there or failed.
	connecting chan struct{}
	failure    error
	closed     bool
	// anonymousUntil is until when new connections show no certificate.
	anonymousUntil time.Time
}

// NewReadyz returns a Probe of the API server at address, host:port. config is called for each new
// connection. Its ServerName and roots decide which servers belong to the cluster. Its certificate, if
// any, is shown. traffic counts the bytes.
func NewReadyz(address string, config func() (*tls.Config, error), timing Timing, traffic *wire.Counter) *Readyz {
	return &Readyz{address: address, tls: config, timing: timing, traffic: traffic}
}

// Send sends one request for /readyz, and a ping with it.
func (r *Readyz) Send(ctx context.Context, report func(Answer)) {
	// The server may have closed the kept connection, or refuse the certificate: then a new connection is tried, without a
	// certificate if it was refused. A third try is needed when a connection that was under way had shown it.
	for range 3 {
		l, err := r.connect(ctx)
		if err != nil {
			r.reportFailure(ctx, err, report)
			return
		}
		answer, err := r.request(ctx, l, report)
		if err == nil {
			r.answered(l)
			report(answer)
			return
		}
		if !r.drop(ctx, l, err) {
			return
		}
	}
}

// Close closes the kept connection.
func (r *Readyz) Close() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.closed = true
	if r.current != nil {
		_ = r.current.connection.Close()
		r.current = nil
	}
}

func (r *Readyz) reportFailure(ctx context.Context, err error, report func(Answer)) {
	var unknown *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errNotProbed):
		report(Answer{NotProbed, err.Error()})
	case errors.As(err, &unknown):
		report(Answer{Foreign, fmt.Sprintf("its certificate is not one of this cluster: %v", unknown.Err)})
	case errors.As(err, &record):
		report(Answer{Foreign, "it does not speak TLS"})
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, backends.ErrItself):
		report(Answer{Refused, err.Error()})
	}
	// Anything else, such as no route, is silence: the network answered, not the backend.
}

// connect returns the kept connection, or makes one. Only one is made at a time, and it may take longer than one probe:
// a server that is slow to shake hands must not have to do so again and again.
func (r *Readyz) connect(ctx context.Context) (*link, error) {
	r.lock.Lock()
	if l := r.current; l != nil && l.usable() {
		l.waiting++
		r.lock.Unlock()
		return l, nil
	}
	if r.connecting == nil {
		r.connecting = make(chan struct{})
		go r.dial(r.connecting)
	}
	connecting := r.connecting
	r.lock.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-connecting:
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.current == nil {
		// No failure: another probe, or Close, has dropped the connection since.
		return nil, cmp.Or(r.failure, net.ErrClosed)
	}
	r.current.waiting++
	return r.current, nil
}

func (r *Readyz) dial(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timing.Patience)
	defer cancel()
	l, err := r.newLink(ctx)
	r.lock.Lock()
	defer r.lock.Unlock()
	defer close(done)
	r.connecting = nil
	if r.current != nil {
		_ = r.current.connection.Close()
	}
	r.current, r.failure = l, err
	if r.closed && l != nil {
		_ = l.connection.Close()
		r.current, r.failure = nil, net.ErrClosed
	}
}

// request sends one request over a connection and reads the answer.
func (r *Readyz) request(ctx context.Context, l *link, report func(Answer)) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.address+"/readyz", http.NoBody)
	if err != nil {
		return Answer{}, err
	}
	request.Header.Set("User-Agent", "kok-apiserver-lb")
	var response *http.Response
	if l.http2 != nil {
		go func() {
			if l.http2.Ping(ctx) == nil {
				r.answered(l)
				report(Answer{Kind: Alive})
			}
		}()
		response, err = l.http2.RoundTrip(request)
	} else {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
		response, err = l.roundTrip1(ctx, request)
	}
	if err != nil {
		return Answer{}, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, longestBody))
	_ = response.Body.Close()
	if err != nil {
		return Answer{}, err
	}
	switch {
	case response.StatusCode == http.StatusOK:
		return Answer{Kind: Serving}, nil
	case l.certified && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		return Answer{}, errRefused
	}
	return Answer{NotReady, strings.TrimSpace(fmt.Sprintf("/readyz answers %d %s", response.StatusCode, failedCheck(string(body))))}, nil
}

func (r *Readyz) answered(l *link) {
	r.lock.Lock()
	defer r.lock.Unlock()
	l.waiting = 0
}

// drop closes a connection on which a request failed. It reports whether to try again: not when the time is over, nor when
// a later probe has replaced the connection and brings the answer.
func (r *Readyz) drop(ctx context.Context, l *link, err error) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	_ = l.connection.Close()
	current := r.current == l
	if current {
		r.current = nil
	}
	if ctx.Err() != nil {
		return false
	}
	// With TLS 1.3 a server may refuse a certificate only after the handshake, by ending the connection.
	if l.certified && (current || errors.Is(err, errRefused)) {
		r.anonymousUntil = time.Now().Add(anonymity)
	}
	return current
}

// failedCheck is the first check that /readyz reports as failed, for people.
func failedCheck(body string) string {
	for line := range strings.Lines(body) {
		if check, failed := strings.CutPrefix(line, "[-]"); failed {
			return "(" + strings.TrimSpace(check) + ")"
		}
	}
	return ""
}
