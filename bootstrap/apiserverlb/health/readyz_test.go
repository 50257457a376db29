package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// patient gives a loaded machine time.
var patient = Timing{Patience: 10 * time.Second}

func newReadyz(t *testing.T, authority *apiservertest.Authority, address string) *Readyz {
	t.Helper()
	r := NewReadyz(address, TLS(func() ([]byte, error) { return authority.PEM, nil }, apiservertest.ServerName, nil), patient, &wire.Counter{})
	t.Cleanup(r.Close)
	return r
}

// probeOnce returns the answer that is more than a sign of life, or Unknown for none within the time.
func probeOnce(t *testing.T, r *Readyz, within time.Duration) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	answers := make(chan Answer, 4)
	go r.Send(ctx, func(answer Answer) { answers <- answer })
	for {
		select {
		case answer := <-answers:
			if answer.Kind != Alive {
				return answer
			}
		case <-ctx.Done():
			return Answer{}
		}
	}
}

func TestReadyzTellsWhatIsWrong(t *testing.T) {
	authority, stranger := apiservertest.NewAuthority(t), apiservertest.NewAuthority(t)
	for name, test := range map[string]struct {
		fault   func(*apiservertest.Server)
		trust   *apiservertest.Authority
		kind    Kind
		problem string
	}{
		"a server that stops":             {func(s *apiservertest.Server) { s.Ready.Store(500) }, authority, NotReady, "/readyz answers 500 (shutdown failed"},
		"a server that is gone":           {(*apiservertest.Server).Kill, authority, Refused, "connection refused"},
		"a server of another cluster":     {func(*apiservertest.Server) {}, stranger, Foreign, "certificate is not one of this cluster"},
		"a server that forbids anonymous": {func(s *apiservertest.Server) { s.Ready.Store(401) }, authority, NotReady, "/readyz answers 401"},
	} {
		t.Run(name, func(t *testing.T) {
			server := apiservertest.New(t, authority, "127.0.0.2", nil)
			test.fault(server)
			answer := probeOnce(t, newReadyz(t, test.trust, server.Address), 10*time.Second)
			if answer.Kind != test.kind || !strings.Contains(answer.Problem, test.problem) {
				t.Errorf("answer %+v", answer)
			}
		})
	}
}

func TestReadyzTellsWhyItCannotAsk(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	broken := TLS(func() ([]byte, error) { return authority.PEM[:len(authority.PEM)/2], nil }, apiservertest.ServerName, nil)
	r := NewReadyz(server.Address, broken, patient, &wire.Counter{})
	t.Cleanup(r.Close)
	if answer := probeOnce(t, r, 10*time.Second); answer.Kind != NotProbed || !strings.Contains(answer.Problem, "holds no certificate") {
		t.Errorf("answer %+v", answer)
	}
}

func TestReadyzOfAServerThatCameBackIsAskedOnANewConnection(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	r := newReadyz(t, authority, server.Address)
	probeOnce(t, r, 10*time.Second)
	server.Kill()
	if answer := probeOnce(t, r, 10*time.Second); answer.Kind != Refused {
		t.Errorf("of the killed server: %+v", answer)
	}
	server.Start()
	if answer := probeOnce(t, r, 10*time.Second); answer.Kind != Serving {
		t.Errorf("of the new server: %+v", answer)
	}
}

func TestAConnectionThatIsLostBeforeItWasUsedIsNoAnswer(t *testing.T) {
	r := NewReadyz("192.0.2.1:6443", nil, patient, &wire.Counter{})
	// It was made, and another question or Close dropped it before the one that waited came to use it.
	r.connecting = make(chan struct{})
	close(r.connecting)
	r.Send(t.Context(), func(answer Answer) { t.Errorf("answer %+v", answer) })
}

func TestReadyzOfAHangingServerHasNoAnswer(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	r := newReadyz(t, authority, server.Address)
	probeOnce(t, r, 10*time.Second)
	server.Hang()
	if answer := probeOnce(t, r, 300*time.Millisecond); answer.Kind != Unknown {
		t.Errorf("answer %+v", answer)
	}
	server.Resume()
	if answer := probeOnce(t, r, 10*time.Second); answer.Kind != Serving {
		t.Errorf("after it went on: %+v", answer)
	}
}

func TestAHangingReadyzOfALivingServerIsToldByAPing(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	server.Slow.Store(true)
	r := newReadyz(t, authority, server.Address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := make(chan Answer, 4)
	go r.Send(ctx, func(answer Answer) { answers <- answer })
	if answer := <-answers; answer.Kind != Alive {
		t.Errorf("answer %+v", answer)
	}
}

func TestReadyzOfWhatIsNoTLSServer(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	address := loopback.Serve(t, func(accepted *net.TCPConn) { _, _ = accepted.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n")) })
	if answer := probeOnce(t, newReadyz(t, authority, address.String()), 10*time.Second); answer.Kind != Foreign {
		t.Errorf("answer %+v", answer)
	}
}

// A second question that is written before the first is answered would read from the same buffer.
func TestAConnectionOfHTTP1HasOneQuestionAtATime(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	const questions = 3
	var early atomic.Int32
	address := serveRaw(t, authority, func(connection net.Conn) {
		reader := bufio.NewReader(connection)
		for range questions {
			if _, err := http.ReadRequest(reader); err != nil {
				t.Error(err)
				return
			}
			_ = connection.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := reader.Peek(1); err == nil {
				early.Add(1)
			}
			_ = connection.SetReadDeadline(time.Time{})
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	r := newReadyz(t, authority, address)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := r.newLink(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.connection.Close() }()
	var probing sync.WaitGroup
	for range questions {
		probing.Go(func() {
			if answer, err := r.request(ctx, l, func(Answer) {}); err != nil || answer.Kind != Serving {
				t.Errorf("answer %+v, %v", answer, err)
			}
		})
	}
	probing.Wait()
	if early.Load() > 0 {
		t.Errorf("%d requests were sent before the one before was answered", early.Load())
	}
}

// serveRaw serves one TLS connection, without HTTP/2, by hand.
func serveRaw(t *testing.T, authority *apiservertest.Authority, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{authority.Server()}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		accepted, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = accepted.Close() }()
		serve(accepted)
	}()
	return listener.Addr().String()
}
