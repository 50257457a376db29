package balancer

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// behind serves at one more listener with a gate.
func (s *stage) behind(gate *Gate) *net.TCPListener {
	s.t.Helper()
	listener := loopback.Listen(s.t)
	var serving sync.WaitGroup
	serving.Go(func() { s.balancer.Serve(Listener{TCPListener: listener, Service: true, Gate: gate}) })
	s.t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener
}

// knock connects from 127.0.0.n and waits for an answer of the server.
func knock(t *testing.T, n byte, to net.Addr) (*net.TCPConn, error) {
	t.Helper()
	connection, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}, to.(*net.TCPAddr))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = connection.Close() })
	if _, err := io.WriteString(connection, "hello"); err != nil {
		return nil, err
	}
	_, err = connection.Read(make([]byte, 1))
	return connection, err
}

func serveEcho(connection *net.TCPConn) {
	go func() {
		_, _ = io.Copy(connection, connection)
		_ = connection.Close()
	}()
}

// newEchoStage is a balancer in front of a server that answers what it is told and keeps its connections.
func newEchoStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, 1, DefaultTiming)
	echo := loopback.Serve(t, serveEcho)
	if err := s.set.Confirm([]string{echo.String()}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFinding10TheGateOfAListener(t *testing.T) {
	const all, perSource = 5, 2
	for name, test := range map[string]struct {
		// sources are those of the connections that are kept, next is who comes then.
		sources []byte
		next    byte
		refused bool
	}{
		"lets in who is alone":                      {nil, 1, false},
		"lets in as many of one source as it may":   {[]byte{1}, 1, false},
		"refuses one more of a source":              {[]byte{1, 1}, 1, true},
		"lets in another source then":               {[]byte{1, 1}, 2, false},
		"refuses everybody when all that may be do": {[]byte{1, 1, 2, 2, 3}, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			gate := NewGate(all, perSource)
			s := newEchoStage(t)
			listener := s.behind(gate)
			for _, source := range test.sources {
				if _, err := knock(t, source, listener.Addr()); err != nil {
					t.Fatalf("from 127.0.0.%d: %v", source, err)
				}
			}
			_, err := knock(t, test.next, listener.Addr())
			if refused := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE); refused != test.refused || err != nil && !refused {
				t.Errorf("it was refused: %v, %v", refused, err)
			}
			if open, refused := gate.State(); refused > 0 != test.refused || open > all {
				t.Errorf("%d are open, %d refused", open, refused)
			}
			// Other listeners are not concerned.
			if _, err := knock(t, test.next, s.listener.Addr()); err != nil {
				t.Errorf("at another listener: %v", err)
			}
		})
	}
}

func TestAConnectionThatEndedMakesRoomForAnother(t *testing.T) {
	gate := NewGate(2, 1)
	s := newEchoStage(t)
	listener := s.behind(gate)
	for range 20 {
		connection, err := knock(t, 1, listener.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
		eventually(t, "the connection is counted out", func() bool { open, _ := gate.State(); return open == 0 })
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = listener.Close()
	_ = s.listener.Close()
	s.balancer.Drain(ended)
	if len(gate.sources) != 0 {
		t.Errorf("sources without a connection are kept: %v", gate.sources)
	}
}

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	gate := NewGate(1, 1)
	if now := gate.told.Add(refusalsInterval); !gate.tell(now) || gate.tell(now.Add(refusalsInterval-1)) || !gate.tell(now.Add(refusalsInterval)) {
		t.Error("not one a minute")
	}
}

// BenchmarkGate is what a gate costs each connection, beside the thousands of microseconds of its TLS handshake.
func BenchmarkGate(b *testing.B) {
	gate := NewGate(1<<14, 1<<10)
	client := net.Addr(&net.TCPAddr{IP: net.IPv4(10, 244, 0, 7), Port: 40000})
	b.ReportAllocs()
	for b.Loop() {
		if !gate.enter(client) {
			b.Fatal("it is shut")
		}
		gate.leave(client)
	}
}
