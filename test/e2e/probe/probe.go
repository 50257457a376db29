// Package probe finds out whether a TCP listener answers somebody: it connects, with or without TLS,
// shows a credential, asks for a path, and tells what came back. Who the server is does not matter here.
package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// timeout of one probe. Listeners are on the same machine: one that does not answer by then hangs.
const timeout = 10 * time.Second

// Credential is what a probe shows; the zero value shows nothing.
type Credential struct {
	// Name says for people whose it is.
	Name string
	// Certificate is a client certificate. It is shown also to servers that ask for those of other CAs.
	Certificate *tls.Certificate
	// Header is sent with the request, such as an Authorization.
	Header http.Header
}

// Answer is what a listener answered.
type Answer struct {
	// Status is that of the HTTP response, 0 when none came.
	Status int
	// Err is why none came.
	Err error
}

// Refused reports whether the listener turned the probe away: it ended the connection, by a TLS alert
// or without a word, or it answered that the credential is none or allows nothing. Silence is no refusal.
func (a Answer) Refused() bool {
	if a.Err == nil {
		return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
	}
	var operation *net.OpError
	if errors.As(a.Err, &operation) && operation.Op == "remote error" { // a TLS alert of the server
		return true
	}
	for _, ended := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(a.Err, ended) {
			return true
		}
	}
	return false
}

// LetIn reports whether the listener knows who shows the credential, whatever it lets them do: it answered, and not with status 401.
func (a Answer) LetIn() bool { return a.Err == nil && a.Status != http.StatusUnauthorized }

func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("HTTP status %d", a.Status)
}

// pause is between two questions.
const pause = 500 * time.Millisecond

// Last asks a listener that may remember a credential until a time, and returns the answer that stays: a refusal, or that it lets in who shows
// the credential after that time. Who does not say either is asked for a minute longer.
func Last(ctx context.Context, until time.Time, ask func() Answer) Answer {
	silent := time.Now().Add(time.Minute)
	for {
		answer := ask()
		now := time.Now()
		wait := until
		if !answer.LetIn() {
			wait = silent
		}
		if answer.Refused() && !answer.LetIn() || !now.Before(wait) {
			return answer
		}
		select {
		case <-ctx.Done():
			return answer
		case <-time.After(pause):
		}
	}
}

// TLS asks for a path over TLS.
func TLS(ctx context.Context, address string, credential Credential, path string) Answer {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: credential.config("http/1.1")}
	return ask(ctx, dialer.DialContext, address, credential, path)
}

// config shows the credential's certificate to a server that speaks a protocol.
func (c Credential) config(protocol string) *tls.Config {
	config := &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the question is whom the server lets in
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{protocol},
	}
	if c.Certificate != nil {
		// Without this, a certificate of a CA that the server does not name would not be sent.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate, nil }
	}
	return config
}

// Plain asks for a path without TLS. A server of TLS that says so, by status 400, refused.
func Plain(ctx context.Context, address, path string) Answer {
	dialer := &net.Dialer{Timeout: timeout}
	answer := ask(ctx, dialer.DialContext, address, Credential{}, path)
	if answer.Status == http.StatusBadRequest {
		return Answer{Err: fmt.Errorf("HTTP status 400 to a request without TLS: %w", io.EOF)}
	}
	return answer
}

// Dial connects to an address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

func ask(ctx context.Context, dial Dial, address string, credential Credential, path string) Answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	connection, err := dial(ctx, "tcp", address)
	if err != nil {
		return Answer{Err: err}
	}
	defer connection.Close() //nolint:errcheck // nothing was written that matters
	deadline, _ := ctx.Deadline()
	if err := connection.SetDeadline(deadline); err != nil {
		return Answer{Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, http.NoBody)
	if err != nil {
		return Answer{Err: err}
	}
	for name, values := range credential.Header {
		request.Header[name] = values
	}
	request.Header.Set("Connection", "close")
	// In TLS 1.3 the server looks at the client's certificate after the handshake is over for the client:
	// its alert is what is read next, also when the write failed.
	writeErr := request.Write(connection)
	response, err := http.ReadResponse(bufio.NewReader(connection), request)
	if err != nil {
		return Answer{Err: errors.Join(err, writeErr)}
	}
	defer response.Body.Close() //nolint:errcheck // only read
	return Answer{Status: response.StatusCode}
}

// Bearer is a credential with a token.
func Bearer(name, token string) Credential {
	return Credential{Name: name, Header: http.Header{"Authorization": {"Bearer " + strings.TrimSpace(token)}}}
}
