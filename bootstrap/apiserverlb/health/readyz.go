package health

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/net/http2"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
)

// longestBody is how much of an answer of /readyz is read.
const longestBody = 4 << 10

// Readyz asks an API server for /readyz over one TLS connection that it keeps.
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
}

// NewReadyz returns a Probe of the API server at address, host:port. config is called for each new
// connection: its ServerName and roots decide who is one of the cluster's. traffic counts the bytes.
func NewReadyz(address string, config func() (*tls.Config, error), timing Timing, traffic *wire.Counter) *Readyz {
	return &Readyz{address: address, tls: config, timing: timing, traffic: traffic}
}

// link is a kept connection.
type link struct {
	connection *tls.Conn
	// http2 is nil when the server speaks HTTP/1.1 only.
	http2 *http2.ClientConn
	http1 *bufio.Reader
	// turn is held by the one question that is on a connection of HTTP/1.1; several may wait for the same new one.
	turn chan struct{}
	// waiting is how many questions went out since the last answer.
	waiting int
}

// Ask sends one request for /readyz, and a ping with it.
func (r *Readyz) Ask(ctx context.Context, report func(Answer)) {
	// A kept connection may have been closed by the server since: once more on a new one then.
	for range 2 {
		l, err := r.connect(ctx)
		if err != nil {
			r.reportFailure(ctx, err, report)
			return
		}
		answer, err := r.ask(ctx, l, report)
		if err == nil {
			r.answered(l)
			report(answer)
			return
		}
		if !r.drop(l) || ctx.Err() != nil {
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
	case errors.As(err, &unknown):
		report(Answer{Foreign, fmt.Sprintf("its certificate is not one of this cluster: %v", unknown.Err)})
	case errors.As(err, &record):
		report(Answer{Foreign, "it does not speak TLS"})
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		report(Answer{Refused, err.Error()})
	}
	// Anything else, such as no route, is silence: the network answered, not the backend.
}

// connect returns the kept connection, or makes one. Only one is being made at a time, and it may
// take longer than one question: a server that is slow to shake hands is not asked to do it again and
// again.
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
		// Without a failure another question, or Close, has dropped the connection since.
		return nil, cmp.Or(r.failure, net.ErrClosed)
	}
	r.current.waiting++
	return r.current, nil
}

// usable is false for a connection whose last question is unanswered: what hangs may be that
// connection alone.
func (l *link) usable() bool {
	return l.waiting == 0 && (l.http2 == nil || l.http2.CanTakeNewRequest())
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

func (r *Readyz) newLink(ctx context.Context) (*link, error) {
	config, err := r.tls()
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	dialled, err := r.traffic.Dial(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	connection := tls.Client(dialled, config)
	if err := connection.HandshakeContext(ctx); err != nil {
		_ = dialled.Close()
		return nil, err
	}
	l := &link{connection: connection}
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

// ask sends the question over a connection and reads the answer.
func (r *Readyz) ask(ctx context.Context, l *link, report func(Answer)) (Answer, error) {
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
	if response.StatusCode == http.StatusOK {
		return Answer{Kind: Serving}, nil
	}
	return Answer{NotReady, strings.TrimSpace(fmt.Sprintf("/readyz answers %d %s", response.StatusCode, failedCheck(string(body))))}, nil
}

// roundTrip1 is for servers without HTTP/2. Who calls it has the turn until the answer is read.
func (l *link) roundTrip1(ctx context.Context, request *http.Request) (*http.Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = l.connection.SetDeadline(deadline)
	}
	if err := request.Write(l.connection); err != nil {
		return nil, err
	}
	return http.ReadResponse(l.http1, request)
}

func (r *Readyz) answered(l *link) {
	r.lock.Lock()
	defer r.lock.Unlock()
	l.waiting = 0
}

// drop forgets a connection that broke; false when another had replaced it.
func (r *Readyz) drop(l *link) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	_ = l.connection.Close()
	if r.current != l {
		return false
	}
	r.current = nil
	return true
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

// TLS returns what Readyz needs to know servers of a cluster by: its CA's certificates, read anew by
// read for each connection, and the name that every server's certificate has.
func TLS(read func() ([]byte, error), serverName string) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		bundle, err := read()
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(bundle) {
			return nil, errors.New("the CA file holds no certificate")
		}
		return &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}, nil
	}
}
