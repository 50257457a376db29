package balancer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// clientHello is how a client of TLS 1.3 begins, with the name kubernetes.
const clientHello = "\x16\x03\x01\x00\x41\x01\x00\x00\x3d\x03\x03" + "0123456789abcdef0123456789abcdef" + "\x00\x00\x02\x13\x01\x01\x00\x00\x12\x00\x00\x00\x0e\x00\x0c\x00\x00\x09kubernete"

// FuzzClientHellos: whatever a client says first, and in however many pieces, reaches the server as it was said, also when a
// second server is asked because the first is silent; and what the server answers reaches the client.
func FuzzClientHellos(f *testing.F) {
	for _, seed := range []string{clientHello, "", "\x00", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("a", maxHello), strings.Repeat("b", maxHello+1), strings.Repeat("c", 3*maxHello), clientHello + strings.Repeat("\x16", bufferSize)} {
		for _, cut := range []uint16{0, 1, 5, 1 << 14} {
			f.Add([]byte(seed), cut, cut == 5)
		}
	}
	timing := DefaultTiming
	timing.ShortestHedge = time.Millisecond
	echo := loopback.Serve(f, serveEcho)
	silent := loopback.Serve(f, func(connection *net.TCPConn) {
		go func() {
			_, _ = io.Copy(io.Discard, connection)
			_ = connection.Close()
		}()
	})
	alone, both := balanced(f, timing, echo), balanced(f, timing, echo, silent)
	f.Fuzz(func(t *testing.T, said []byte, cut uint16, hedged bool) {
		balancer := alone
		// The balancer sends longer data to one backend only, and the silent one may be chosen.
		if hedged && len(said) <= maxHello {
			balancer = both
		}
		// So many connections a second are not hedged otherwise.
		balancer.hedging.lock.Lock()
		balancer.hedging.tokens = hedgeBurst
		balancer.hedging.lock.Unlock()
		client, err := net.DialTCP("tcp", nil, balancer.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		if err := client.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		first := min(int(cut), len(said))
		go func() {
			_, _ = client.Write(said[:first])
			_, _ = client.Write(said[first:])
		}()
		answer := make([]byte, len(said))
		if n, err := io.ReadFull(client, answer); err != nil || !bytes.Equal(answer, said) {
			if n == 0 && len(said) > maxHello && errors.Is(err, syscall.ECONNRESET) {
				return // More than a ClientHello before a server was connected ends the connection.
			}
			t.Errorf("of %d bytes %d came back, equal: %t, %v", len(said), n, bytes.Equal(answer, said), err)
		}
	})
}

// What is given up goes to nobody, also if a backend is connected right then.
func TestAClientThatSaysTooMuchBeforeABackendIsConnectedIsResetAtOnce(t *testing.T) {
	s := newEchoStage(t)
	listener := loopback.Listen(t)
	client, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	accepted, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	given := &session{balancer: s.balancer, client: accepted, opening: &opening{hedge: time.NewTimer(time.Hour)}}
	if err := given.forward(make([]byte, maxHello+1)); !errors.Is(err, errTooMuch) {
		t.Errorf("it says %v", err)
	}
	if given.opening != nil || !given.ended || s.balancer.Counters().Failed.Load() != 1 {
		t.Errorf("a backend may still have it: ended %t, %d failed", given.ended, s.balancer.Counters().Failed.Load())
	}
	if err := client.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v", err)
	}
}

// served is a balancer with the address that it serves at.
type served struct {
	*Balancer
	address *net.TCPAddr
}

// balanced is a balancer in front of servers.
func balanced(t testing.TB, timing Timing, servers ...*net.TCPAddr) served {
	t.Helper()
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.String())
	}
	set, err := backends.NewSet(addresses, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener := loopback.Listen(t)
	b := New(set, timing, logr.Discard())
	go b.Serve(Listener{TCPListener: listener})
	return served{b, listener.Addr().(*net.TCPAddr)}
}
