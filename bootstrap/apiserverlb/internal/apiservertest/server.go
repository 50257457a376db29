package apiservertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is an API server that can fail in all the ways a load balancer must know.
type Server struct {
	// Address is host:port, also after a restart.
	Address string
	// Requests counts requests other than probes.
	Requests atomic.Int64
	// Probes counts requests for /readyz.
	Probes atomic.Int64
	// Ready is the status code of /readyz.
	Ready atomic.Int64
	// Accepted counts connections.
	Accepted atomic.Int64
	// Distrust makes every client certificate one that the server does not trust.
	Distrust atomic.Bool
	// Forbid makes /readyz one that only anonymous may request.
	Forbid atomic.Bool
	// Slow makes /readyz wait while the rest of the server answers.
	Slow atomic.Bool

	t         testing.TB
	authority *Authority
	handler   http.Handler
	// strict is the version of TLS after Strict.
	strict uint16

	lock     sync.Mutex
	listener *listener
	http     *http.Server
	gate     *gate
}

// New starts a server at a free port of an address such as 127.0.0.2. handler serves what the server
// does not serve itself; nil for nothing.
func New(t testing.TB, authority *Authority, host string, handler http.Handler) *Server {
	t.Helper()
	return NewAt(t, authority, net.JoinHostPort(host, "0"), handler)
}

// NewAt is New at host:port.
func NewAt(t testing.TB, authority *Authority, address string, handler http.Handler) *Server {
	t.Helper()
	s := &Server{Address: address, t: t, authority: authority, handler: handler, gate: newGate()}
	s.Ready.Store(http.StatusOK)
	s.Start()
	t.Cleanup(func() {
		s.gate.lift()
		s.Kill()
	})
	return s
}

// Start starts a server that was stopped, at the same address.
func (s *Server) Start() {
	s.t.Helper()
	tcp, err := net.Listen("tcp", s.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.Address = tcp.Addr().String()
	s.listener = &listener{TCPListener: tcp.(*net.TCPListener), gate: s.gate, accepted: &s.Accepted, open: map[*connection]struct{}{}}
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.authority.Server()}, ClientCAs: s.authority.Pool(), ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	if s.strict != 0 {
		s.http.TLSConfig.ClientAuth, s.http.TLSConfig.MinVersion, s.http.TLSConfig.MaxVersion = tls.VerifyClientCertIfGiven, s.strict, s.strict
	}
	go func(server *http.Server, listener net.Listener) { _ = server.ServeTLS(listener, "", "") }(s.http, s.listener)
}

// Strict starts the server anew with one version of TLS, in which it ends connections that show a
// certificate that it does not trust, as kube-apiserver does not.
func (s *Server) Strict(version uint16) {
	s.t.Helper()
	s.Kill()
	s.strict = version
	s.Start()
}

// Hang stops the program and leaves its kernel: connections are accepted, and nothing is answered.
func (s *Server) Hang() { s.gate.shut() }

// Resume ends Hang.
func (s *Server) Resume() { s.gate.lift() }

// Kill ends the program: its connections are reset, new ones refused.
func (s *Server) Kill() {
	s.lock.Lock()
	defer s.lock.Unlock()
	_ = s.listener.Close()
	s.listener.reset()
	go func(server *http.Server) { _ = server.Close() }(s.http)
}

// Refuse refuses new connections and leaves those that are open, as a server that stops does.
func (s *Server) Refuse() {
	s.lock.Lock()
	defer s.lock.Unlock()
	_ = s.listener.Close()
}

// Stop ends the server as SIGTERM does: it refuses new connections, tells clients to go away, and
// waits for requests under way until the context ends.
func (s *Server) Stop(ctx context.Context) {
	s.lock.Lock()
	server := s.http
	s.lock.Unlock()
	_ = server.Shutdown(ctx)
	s.Kill()
}

// Open is the number of connections that the server has.
func (s *Server) Open() int {
	s.lock.Lock()
	l := s.listener
	s.lock.Unlock()
	l.lock.Lock()
	defer l.lock.Unlock()
	return len(l.open)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.authenticate(w, r) {
		return
	}
	if r.URL.Path == "/readyz" {
		s.Probes.Add(1)
		if s.Forbid.Load() && len(r.TLS.PeerCertificates) > 0 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if s.Slow.Load() {
			<-r.Context().Done()
			return
		}
		code := int(s.Ready.Load())
		w.WriteHeader(code)
		if code != http.StatusOK {
			_, _ = fmt.Fprintln(w, "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed")
		}
		return
	}
	s.Requests.Add(1)
	switch r.URL.Path {
	case "/name":
		_, _ = io.WriteString(w, s.Address)
	case "/watch":
		// A line, then nothing until the client or the server goes.
		_, _ = fmt.Fprintln(w, s.Address)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "/ticks":
		ticks(w, r)
	case "/bytes":
		_, _ = io.CopyN(w, zeros{}, 16<<20)
	default:
		if s.handler == nil {
			http.NotFound(w, r)
			return
		}
		s.handler.ServeHTTP(w, r)
	}
}

// authenticate does as kube-apiserver: a certificate that it does not trust is Unauthorized, and an
// anonymous client has an HTTP/2 connection for one request only
// (k8s.io/apiserver/pkg/endpoints/filters, feature gate UnauthenticatedHTTP2DOSMitigation).
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) bool {
	shown := r.TLS.PeerCertificates
	trusted := len(shown) > 0 && !s.Distrust.Load()
	if trusted {
		_, err := shown[0].Verify(x509.VerifyOptions{Roots: s.authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		trusted = err == nil
	}
	if !trusted && r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
	if len(shown) > 0 && !trusted {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	return true
}

// ticks sends a line every 20 ms.
func ticks(w http.ResponseWriter, r *http.Request) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := fmt.Fprintln(w, "tick"); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

type zeros struct{}

func (zeros) Read(bytes []byte) (int, error) {
	clear(bytes)
	return len(bytes), nil
}
