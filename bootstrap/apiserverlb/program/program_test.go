package program

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
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/discovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// stage is a whole load balancer in front of API servers that share an EndpointSlice.
type stage struct {
	t         testing.TB
	authority *apiservertest.Authority
	slice     *apiservertest.Slice
	servers   []*apiservertest.Server
	config    *configuration.Configuration
	program   *Program
	// stop ends the program and returns what Run returned.
	stop func() error
}

func newStage(t testing.TB, count int) *stage {
	t.Helper()
	s := &stage{t: t, authority: apiservertest.NewAuthority(t), slice: apiservertest.NewSlice()}
	for range count {
		s.addServer()
	}
	s.slice.Set(s.addresses()...)
	directory := t.TempDir()
	s.authority.ClientFile(filepath.Join(directory, "current.pem"), "system:node:w1")
	kubeconfig := filepath.Join(directory, "kubelet.conf")
	content := `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {client-certificate: current.pem, client-key: current.pem}}]}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := configuration.Parse(fmt.Appendf(nil, "{listenAddress: %q, statusAddress: %q, seedBackends: [%q], certificateAuthorityFile: %q, kubeconfigFile: %q, stateFile: %q, stopTimeout: 300ms}",
		loopback.Free(t), loopback.Free(t), s.servers[0].Address, s.authority.File(), kubeconfig, filepath.Join(directory, "backends.json")))
	if err != nil {
		t.Fatal(err)
	}
	s.config = config
	return s
}

func (s *stage) addServer() *apiservertest.Server {
	port := "0"
	if len(s.servers) > 0 {
		// An EndpointSlice has one port for all of its addresses.
		_, port, _ = net.SplitHostPort(s.servers[0].Address)
	}
	server := apiservertest.NewAt(s.t, s.authority, fmt.Sprintf("127.0.0.%d:%s", len(s.servers)+2, port), s.slice)
	s.servers = append(s.servers, server)
	return server
}

func (s *stage) addresses() []string {
	addresses := make([]string, len(s.servers))
	for i, server := range s.servers {
		addresses[i] = server.Address
	}
	return addresses
}

// start starts the program and returns when it serves.
func (s *stage) start() {
	s.t.Helper()
	p, err := New(s.config, logr.Discard())
	if err != nil {
		s.t.Fatal(err)
	}
	s.program = p
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.t.Cleanup(func() { _ = s.stop() })
	s.eventually("it serves", func() bool {
		_, err := status.Fetch(s.t.Context(), s.config.StatusAddress)
		return err == nil
	})
}

// confirmed starts the program and waits until it knows all servers.
func (s *stage) confirmed() {
	s.t.Helper()
	s.start()
	s.eventually("all servers are ready", func() bool {
		r := s.report()
		return r.Discovery.Confirmed && r.Ready() == len(s.servers)
	})
}

func (s *stage) report() *status.Report {
	s.t.Helper()
	r, err := status.Fetch(s.t.Context(), s.config.StatusAddress)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stage) state(server *apiservertest.Server) string {
	s.t.Helper()
	for _, b := range s.report().Backends {
		if b.Address == server.Address {
			return b.State
		}
	}
	return "unknown"
}

func (s *stage) eventually(what string, condition func() bool) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			if s.program != nil {
				_ = s.program.Report().Print(os.Stderr, time.Now())
			}
			s.t.Fatalf("never happened: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// client opens a connection for each request.
func (s *stage) client() *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.authority.Pool(), ServerName: apiservertest.ServerName, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.config.ListenAddress)
		},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *stage) get(ctx context.Context, client *http.Client) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+apiservertest.ServerName+"/name", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// load sends a request on a fresh connection every 50 ms until it is stopped.
func (s *stage) load() (stop func() (requests, failed int)) {
	ctx, cancel := context.WithCancel(s.t.Context())
	client := s.client()
	var requests, failed atomic.Int32
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			running.Go(func() {
				requests.Add(1)
				if _, err := s.get(context.WithoutCancel(ctx), client); err != nil {
					failed.Add(1)
					s.t.Logf("a request failed: %v", err)
				}
			})
		}
	})
	return func() (int, int) {
		cancel()
		running.Wait()
		return int(requests.Load()), int(failed.Load())
	}
}

// watches opens a watch at each server and returns a channel for each that is closed at its end.
func (s *stage) watches() map[string]<-chan struct{} {
	s.t.Helper()
	ends := map[string]<-chan struct{}{}
	for len(ends) < len(s.servers) {
		response, err := s.client().Get("https://" + apiservertest.ServerName + "/watch") //nolint:bodyclose // By the goroutine that reads it.
		if err != nil {
			s.t.Fatal(err)
		}
		lines := bufio.NewReader(response.Body)
		line, err := lines.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		ended := make(chan struct{})
		ends[strings.TrimSpace(line)] = ended
		go func() {
			_, _ = lines.ReadString('\n')
			_ = response.Body.Close()
			close(ended)
		}()
	}
	return ends
}

func (s *stage) open(watches map[string]<-chan struct{}, server *apiservertest.Server) bool {
	select {
	case <-watches[server.Address]:
		return false
	default:
		return true
	}
}

func TestFaultsOfOneServerFailNoRequestAndTouchNoOtherWatch(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(*apiservertest.Server)
		state string
		// ends is true when the fault must end the watches of its server.
		ends bool
	}{
		"killed":                   {(*apiservertest.Server).Kill, "dead", true},
		"hanging":                  {(*apiservertest.Server).Hang, "dead", true},
		"refusing":                 {(*apiservertest.Server).Refuse, "draining", false},
		"not ready":                {func(s *apiservertest.Server) { s.Ready.Store(500) }, "draining", false},
		"hanging in /readyz alone": {func(s *apiservertest.Server) { s.Slow.Store(true) }, "draining", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 3)
			s.confirmed()
			watches := s.watches()
			stop := s.load()
			faulty := s.servers[2]
			if name == "refusing" {
				// A server that stops ends its idle connections, the probe's among them, and refuses new ones.
				faulty.Ready.Store(500)
				s.eventually("it drains", func() bool { return s.state(faulty) == "draining" })
			}
			test.fault(faulty)
			s.eventually("it is "+test.state, func() bool { return s.state(faulty) == test.state })
			if test.ends {
				<-watches[faulty.Address]
			} else if !s.open(watches, faulty) {
				t.Error("the watch of the server was cut")
			}
			if requests, failed := stop(); failed > 0 {
				t.Errorf("%d of %d requests failed", failed, requests)
			}
			for _, server := range s.servers[:2] {
				if !s.open(watches, server) {
					t.Error("the watch of another server was cut")
				}
			}
			before := faulty.Requests.Load()
			for range 10 {
				if _, err := s.get(t.Context(), s.client()); err != nil {
					t.Error(err)
				}
			}
			if got := faulty.Requests.Load() - before; got != 0 {
				t.Errorf("the %s server got %d new requests", test.state, got)
			}
		})
	}
}

// probed pokes all backends until each server was probed so often, and returns how many connections were made to servers
// meanwhile.
func (s *stage) probed(times int64) (connections int64) {
	s.t.Helper()
	for _, server := range s.servers {
		probes, accepted := server.Probes.Load(), server.Accepted.Load()
		s.eventually("it is probed", func() bool {
			for _, b := range s.program.backends.All() {
				b.Poke()
			}
			return server.Probes.Load() >= probes+times
		})
		connections += server.Accepted.Load() - accepted
	}
	return connections
}

// keepsConnections waits for five probes of each server that make no connection. A probe that a busy machine makes late takes its connection
// with it. Without kept connections each probe makes one.
func (s *stage) keepsConnections() {
	s.t.Helper()
	s.eventually("five probes of each server make no connection", func() bool { return s.probed(5) == 0 })
}

func TestProbesKeepTheirConnections(t *testing.T) {
	s := newStage(t, 2)
	s.confirmed()
	s.keepsConnections()
}

func TestAWorkerThatHasNotJoinedYetProbesWithoutACertificate(t *testing.T) {
	s := newStage(t, 1)
	certificate := filepath.Join(filepath.Dir(s.config.KubeconfigFile), "current.pem")
	if err := os.Remove(certificate); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.eventually("the server is ready", func() bool { return s.report().Backends[0].Reason == "answers /readyz" })
	s.eventually("three probes without a certificate make three connections", func() bool { return s.probed(3) >= 3 })
	s.authority.ClientFile(certificate, "system:node:w1")
	s.eventually("the list is read", func() bool { return s.report().Discovery.Confirmed })
	s.keepsConnections()
}

func TestAServerThatCameBackServesAgain(t *testing.T) {
	s := newStage(t, 2)
	s.confirmed()
	s.servers[0].Kill()
	s.eventually("it is dead", func() bool { return s.state(s.servers[0]) == "dead" })
	s.servers[0].Start()
	s.eventually("it is ready", func() bool { return s.state(s.servers[0]) == "ready" })
}

func TestAServerThatIsAddedServesAndOneThatIsRemovedDrains(t *testing.T) {
	s := newStage(t, 2)
	s.confirmed()
	watches := s.watches()
	stop := s.load()
	added := s.addServer()
	s.slice.Set(s.servers[1].Address, added.Address)
	s.eventually("the new server gets requests", func() bool { return added.Requests.Load() > 0 })
	s.eventually("the removed one drains", func() bool { return s.state(s.servers[0]) == "draining" })
	if !s.open(watches, s.servers[0]) {
		t.Error("the watch of the removed server was cut")
	}
	if requests, failed := stop(); failed > 0 {
		t.Errorf("%d of %d requests failed", failed, requests)
	}
}

func TestEveryServerAwayIsToldAtOnceAndTheFirstBackServes(t *testing.T) {
	s := newStage(t, 2)
	s.confirmed()
	for _, server := range s.servers {
		server.Kill()
	}
	s.eventually("all are dead", func() bool { return s.report().Ready() == 0 })
	start := time.Now()
	if _, err := s.get(t.Context(), s.client()); err == nil {
		t.Error("a request was served")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the client was told after %s", took)
	}
	response, err := http.Get("http://" + s.config.StatusAddress + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %s", response.Status)
	}
	s.servers[1].Start()
	s.eventually("a request is served", func() bool {
		_, err := s.get(t.Context(), s.client())
		return err == nil
	})
}

func TestAllSilentKeepsConnections(t *testing.T) {
	s := newStage(t, 2)
	s.confirmed()
	watches := s.watches()
	for _, server := range s.servers {
		server.Hang()
	}
	before := s.report().Counters.Probes
	s.eventually("both were probed many times", func() bool { return s.report().Counters.Probes > before+20 })
	for _, server := range s.servers {
		if !s.open(watches, server) {
			t.Error("a watch was cut")
		}
		server.Resume()
	}
	s.eventually("both are ready", func() bool {
		for _, b := range s.report().Backends {
			if b.State != "ready" || b.Suspect {
				return false
			}
		}
		return true
	})
	if _, err := s.get(t.Context(), s.client()); err != nil {
		t.Error(err)
	}
}

func TestAStaleKeptListDoesNotLockOut(t *testing.T) {
	s := newStage(t, 1)
	if err := discovery.Save(s.config.StateFile, []string{"127.0.0.99:1", "127.0.0.98:1"}); err != nil {
		t.Fatal(err)
	}
	s.start()
	if name, err := s.get(t.Context(), s.client()); err != nil || name != s.servers[0].Address {
		t.Errorf("answered by %q, %v", name, err)
	}
	s.eventually("the stale list is replaced", func() bool {
		kept, err := discovery.Load(s.config.StateFile)
		return err == nil && len(kept) == 1 && kept[0] == s.servers[0].Address
	})
}

func TestABrokenKeptListDoesNotLockOut(t *testing.T) {
	s := newStage(t, 1)
	if err := os.WriteFile(s.config.StateFile, []byte(`{"backends":["10.0`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.confirmed()
}

func TestTheKeptListServesWhenTheSeedIsGone(t *testing.T) {
	s := newStage(t, 3)
	s.confirmed()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	// While the worker is down all servers but one, which is no seed, go away.
	s.servers[0].Kill()
	s.servers[1].Kill()
	s.slice.Set(s.servers[2].Address)
	s.start()
	if name, err := s.get(t.Context(), s.client()); err != nil || name != s.servers[2].Address {
		t.Errorf("answered by %q, %v", name, err)
	}
	s.eventually("the new list is confirmed", func() bool { return s.report().Discovery.Confirmed })
}

func TestAStopEndsConnectionsAndServesNobody(t *testing.T) {
	s := newStage(t, 2)
	s.confirmed()
	watches := s.watches()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	for _, ended := range watches {
		<-ended
	}
	if _, err := net.Dial("tcp", s.config.ListenAddress); err == nil {
		t.Error("it still listens")
	}
	for _, server := range s.servers {
		s.eventually("connections to servers end", func() bool { return server.Open() == 0 })
	}
}

func TestAnAddressInUseIsTold(t *testing.T) {
	s := newStage(t, 1)
	listener, err := net.Listen("tcp", s.config.ListenAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p, err := New(s.config, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "listen for clients") {
		t.Errorf("got %v", err)
	}
}

func TestAMissingOrBrokenCAIsTold(t *testing.T) {
	s := newStage(t, 1)
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, []byte("-----BEGIN CERT"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := s.config.CertificateAuthorityFile
	s.config.CertificateAuthorityFile = empty
	if _, err := New(s.config, logr.Discard()); err == nil || !strings.Contains(err.Error(), "certificateAuthorityFile "+empty) {
		t.Errorf("of a broken CA file: %v", err)
	}
	s.config.CertificateAuthorityFile = good + ".missing"
	if _, err := New(s.config, logr.Discard()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "certificateAuthorityFile") {
		t.Errorf("got %v", err)
	}
}

func TestSystemdIsToldThatItIsReadyAndThatItStops(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "300000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	s := newStage(t, 1)
	s.start()
	receive := func(want string) {
		t.Helper()
		buffer := make([]byte, 4096)
		for {
			if err := listener.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := listener.Read(buffer)
			if err != nil {
				t.Fatalf("systemd was not told %s: %v", want, err)
			}
			if strings.Contains(string(buffer[:n]), want) {
				return
			}
		}
	}
	receive("READY=1\nSTATUS=")
	receive("WATCHDOG=1")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	receive("STOPPING=1")
}

// A name shows where it leads only when it is dialled.
func TestANameThatLeadsToTheProgramItselfIsNotDialled(t *testing.T) {
	s := newStage(t, 1)
	// What localhost is.
	listener := loopback.Listen(t)
	s.config.ListenAddress = listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(s.config.ListenAddress)
	s.config.SeedBackends, s.config.KubeconfigFile = []string{net.JoinHostPort("localhost", port)}, ""
	s.start()
	// The reset comes so soon that connecting may see it.
	client, err := net.Dial("tcp", s.config.ListenAddress)
	if err == nil {
		defer func() { _ = client.Close() }()
		if err := client.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err = client.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client was not refused: %v", err)
	}
	if r := s.report(); r.Counters.Accepted > 100 || !strings.Contains(r.Backends[0].LastError, "own address") {
		t.Errorf("%d connections, the last error is %q", r.Counters.Accepted, r.Backends[0].LastError)
	}
}
