package balancer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// stage is a balancer in front of servers, without anybody who probes them.
type stage struct {
	t         testing.TB
	authority *apiservertest.Authority
	servers   []*apiservertest.Server
	set       *backends.Set
	balancer  *Balancer
	listener  *net.TCPListener
}

func newStage(t testing.TB, count int, timing Timing) *stage {
	t.Helper()
	s := &stage{t: t, authority: apiservertest.NewAuthority(t)}
	var addresses []string
	for i := range count {
		server := apiservertest.New(t, s.authority, fmt.Sprintf("127.0.0.%d", i+2), nil)
		s.servers = append(s.servers, server)
		addresses = append(addresses, server.Address)
	}
	set, err := backends.NewSet(addresses, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.set, s.balancer = set, New(set, timing, logr.Discard())
	s.listener = loopback.Listen(t)
	var serving sync.WaitGroup
	tcp := s.listener
	serving.Go(func() { s.balancer.Serve(Listener{TCPListener: tcp}) })
	t.Cleanup(func() {
		_ = tcp.Close()
		serving.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.balancer.Drain(ctx)
	})
	return s
}

// client has one connection for all of its requests, or one for each.
func (s *stage) client(fresh bool) *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.authority.Pool(), ServerName: apiservertest.ServerName, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: fresh, ForceAttemptHTTP2: !fresh,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.listener.Addr().String())
		},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func get(client *http.Client, path string) (string, error) {
	response, err := client.Get("https://" + apiservertest.ServerName + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// watch opens a watch and returns the name of its server and a function that waits for its end.
func watch(t testing.TB, client *http.Client) (server string, end func() error) {
	t.Helper()
	streaming := *client
	streaming.Timeout = 0
	response, err := streaming.Get("https://" + apiservertest.ServerName + "/watch") //nolint:bodyclose // By the function that is returned.
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(response.Body)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), func() error {
		defer func() { _ = response.Body.Close() }()
		_, err := lines.ReadString('\n')
		return err
	}
}

func (s *stage) backend(address string) *backends.Backend {
	for _, b := range s.set.All() {
		if b.Address == address {
			return b
		}
	}
	s.t.Fatalf("no backend %q", address)
	return nil
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// unhedged has no connection tried at a second server, however late the first one answers.
func unhedged() Timing {
	timing := DefaultTiming
	timing.ShortestHedge, timing.LongestHedge = time.Hour, time.Hour
	return timing
}

func TestConnectionsSpreadOverAllBackends(t *testing.T) {
	s := newStage(t, 3, unhedged())
	for range 30 {
		_, end := watch(t, s.client(true))
		go func() { _ = end() }()
	}
	for _, b := range s.set.All() {
		if b.Connections() != 10 {
			t.Errorf("%s carries %d of 30", b.Address, b.Connections())
		}
	}
}

func TestNoRequestFailsWhileOneBackend(t *testing.T) {
	for name, fault := range map[string]func(*apiservertest.Server){
		"is killed": (*apiservertest.Server).Kill,
		"hangs":     (*apiservertest.Server).Hang,
		"refuses":   (*apiservertest.Server).Refuse,
		"stops": func(s *apiservertest.Server) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.Stop(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 3, DefaultTiming)
			client := s.client(true)
			for i := range 100 {
				if i == 20 {
					fault(s.servers[1])
				}
				if _, err := get(client, "/name"); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
}

func TestASilentBackendIsLeftToOthersOnlyForThisConnection(t *testing.T) {
	s := newStage(t, 2, DefaultTiming)
	s.servers[0].Hang()
	s.backend(s.servers[1].Address).Carry(&carried{}) // The silent one has fewer connections, so that it is the first choice.
	client := s.client(true)
	for range 10 {
		if name, err := get(client, "/name"); err != nil || name != s.servers[1].Address {
			t.Fatalf("answered by %q, %v", name, err)
		}
	}
	if hedged := s.balancer.Counters().Hedged.Load(); hedged == 0 {
		t.Error("nothing was hedged")
	}
	verdict := s.backend(s.servers[0].Address).Verdict()
	if verdict.State != backends.Ready || verdict.Suspect {
		t.Errorf("a slow ClientHello changed the state of its backend: %+v", verdict)
	}
	select {
	case <-s.backend(s.servers[0].Address).Poked():
	default:
		t.Error("nobody was told to probe the silent backend")
	}
}

func TestAConnectionThatIsHedgedWithAllGoesToTheFirstThatAnswers(t *testing.T) {
	s := newStage(t, 3, DefaultTiming)
	for _, server := range s.servers {
		server.Hang()
		// A new backend is to be probed.
		<-s.backend(server.Address).Poked()
	}
	answered := make(chan error, 1)
	go func() {
		_, err := get(s.client(true), "/name")
		answered <- err
	}()
	eventually(t, "two hedges", func() bool { return s.balancer.Counters().Hedged.Load() == 2 })
	// The silence of each was noticed.
	for _, server := range s.servers {
		<-s.backend(server.Address).Poked()
	}
	s.servers[2].Resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	for i, server := range s.servers {
		snapshot := s.backend(server.Address).Snapshot()
		problem, at := snapshot.LastError, snapshot.LastErrorTime
		if silent := i != 2; (problem != "") != silent || at.IsZero() == silent {
			t.Errorf("the last error of %s is %q at %s", server.Address, problem, at)
		}
	}
}

func TestAllRefuseIsToldTheClientAtOnce(t *testing.T) {
	s := newStage(t, 3, DefaultTiming)
	for _, server := range s.servers {
		server.Kill()
	}
	start := time.Now()
	_, err := get(s.client(true), "/name")
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client saw %v", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("after %s", took)
	}
}

func TestAllSilentGivesUpBeforeTheClientWaitsForEver(t *testing.T) {
	timing := DefaultTiming
	timing.GiveUp = 300 * time.Millisecond
	s := newStage(t, 2, timing)
	for _, server := range s.servers {
		server.Hang()
	}
	if _, err := get(s.client(true), "/name"); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client saw %v", err)
	}
	if failed := s.balancer.Counters().Failed.Load(); failed != 1 {
		t.Errorf("%d failed", failed)
	}
}

func TestAResetOfTheServerReachesTheClientAsAReset(t *testing.T) {
	s := newStage(t, 1, DefaultTiming)
	_, end := watch(t, s.client(true))
	s.servers[0].Kill()
	if err := end(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestTheEndOfTheServerReachesTheClientAsAnEnd(t *testing.T) {
	s := newStage(t, 1, DefaultTiming)
	_, end := watch(t, s.client(true))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	go s.servers[0].Stop(ctx)
	if err := end(); err == nil {
		t.Error("the watch did not end")
	}
	eventually(t, "the connection is released", func() bool { return s.backend(s.servers[0].Address).Connections() == 0 })
}

func TestConnectionsOfADeadBackendAreResetAndOthersStay(t *testing.T) {
	s := newStage(t, 2, unhedged())
	client := s.client(true)
	ends := map[string]func() error{}
	for len(ends) < 2 {
		server, end := watch(t, client)
		ends[server] = end
	}
	dead := s.servers[0]
	dead.Hang()
	s.backend(dead.Address).Reset()
	if err := ends[dead.Address](); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the watch of the dead backend ended with %v", err)
	}
	if s.backend(s.servers[1].Address).Connections() != 1 {
		t.Error("the watch of the other backend was cut")
	}
}

func TestAConnectionBeingOpenedAtADeadBackendGoesToTheNextAtOnce(t *testing.T) {
	s := newStage(t, 2, unhedged())
	s.servers[0].Hang()
	s.servers[1].Hang()
	answered := make(chan error, 1)
	go func() {
		_, err := get(s.client(true), "/name")
		answered <- err
	}()
	carrying := func() *backends.Backend {
		for _, b := range s.set.All() {
			if b.Sent() > 0 {
				return b
			}
		}
		return nil
	}
	eventually(t, "the ClientHello is sent", func() bool { return carrying() != nil })
	dead := carrying()
	for _, server := range s.servers {
		if server.Address != dead.Address {
			server.Resume()
		}
	}
	dead.Reset()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestLargeBodiesArriveWhole(t *testing.T) {
	s := newStage(t, 1, DefaultTiming)
	body, err := get(s.client(false), "/bytes")
	if err != nil || len(body) != 16<<20 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if received := s.set.All()[0].Received(); received < 16<<20 {
		t.Errorf("counted %d bytes", received)
	}
}

func TestAnotherPortOfTheSameBackends(t *testing.T) {
	s := newStage(t, 1, DefaultTiming)
	host, port, _ := net.SplitHostPort(s.servers[0].Address)
	set, err := backends.NewSet([]string{net.JoinHostPort(host, "1")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := New(set, DefaultTiming, logr.Discard())
	s.listener = loopback.Listen(t)
	go other.Serve(Listener{TCPListener: s.listener, BackendPort: port})
	if _, err := get(s.client(true), "/name"); err != nil {
		t.Error(err)
	}
}

// carried is a connection to an API server.
type carried struct{}

func (*carried) Port() string { return "" }

func (*carried) Reset() {}

// A konnectivity agent connects until it has reached every server: it must come to each, however many
// connections the API servers beside them have.
func TestAnotherPortIsSpreadByItsOwnConnections(t *testing.T) {
	s := newStage(t, 3, unhedged())
	var addresses []string
	port := "0"
	for i := range 3 {
		server := apiservertest.NewAt(t, s.authority, fmt.Sprintf("127.0.0.%d:%s", i+2, port), nil)
		_, port, _ = net.SplitHostPort(server.Address)
		addresses = append(addresses, server.Address)
	}
	for range 5 {
		s.backend(s.servers[1].Address).Carry(&carried{})
	}
	s.listener = loopback.Listen(t)
	go s.balancer.Serve(Listener{TCPListener: s.listener, BackendPort: port})
	var reached []string
	for range 3 {
		server, end := watch(t, s.client(true))
		go func() { _ = end() }()
		reached = append(reached, server)
	}
	slices.Sort(reached)
	if !slices.Equal(reached, addresses) {
		t.Errorf("reached %v, want each of %v", reached, addresses)
	}
	if own := s.backend(s.servers[0].Address); own.Connections() != 0 || own.Received() != 0 || own.Sent() != 0 {
		t.Errorf("the API server seems to have %d connections, %d bytes came and %d went", own.Connections(), own.Received(), own.Sent())
	}
	if s.backend(s.servers[0].Address).Idle() {
		t.Error("a host with a connection to another port is idle")
	}
}

func TestDrainEndsQuietConnectionsAndWaitsForBusyOnes(t *testing.T) {
	timing := DefaultTiming
	timing.Quiet = 500 * time.Millisecond
	s := newStage(t, 1, timing)
	client := s.client(true)
	_, quiet := watch(t, client)
	streaming := *client
	streaming.Timeout = 0
	busy, err := streaming.Get("https://" + apiservertest.ServerName + "/ticks")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Body.Close() }()
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for reader := bufio.NewScanner(busy.Body); reader.Scan(); {
			lines <- struct{}{}
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan struct{})
	go func() {
		s.balancer.Drain(ctx)
		close(drained)
	}()
	if err := quiet(); err == nil {
		t.Error("the quiet watch was not ended")
	}
	for since := time.Now(); time.Since(since) < 2*timing.Quiet; {
		if _, more := <-lines; !more {
			t.Fatal("the busy connection was ended with the quiet one")
		}
	}
	cancel()
	<-drained
	for range lines {
		continue // until the connection has ended
	}
}

func TestNothingIsLeftOfHundredsOfConnections(t *testing.T) {
	s := newStage(t, 3, DefaultTiming)
	client := s.client(true)
	if _, err := get(client, "/name"); err != nil {
		t.Fatal(err)
	}
	settled := func() bool {
		return s.balancer.Connections() == 0 && s.servers[0].Open()+s.servers[1].Open()+s.servers[2].Open() == 0
	}
	eventually(t, "the first connection ends", settled)
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	var clients sync.WaitGroup
	for worker := range 8 {
		clients.Go(func() {
			for i := range 100 {
				if worker == 0 && i == 50 {
					s.servers[0].Refuse()
				}
				if _, err := get(client, "/name"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	eventually(t, "all connections end", settled)
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "file descriptors are closed", func() bool { return openDescriptors(t) <= descriptors })
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
