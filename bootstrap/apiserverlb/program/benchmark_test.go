package program

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
)

// configurationVariable names a configuration file: the test program then is a load balancer, so that
// a benchmark can look at one in a process of its own.
const configurationVariable = "KOK_APISERVER_LB_TEST_CONFIGURATION"

func TestMain(m *testing.M) {
	if path := os.Getenv(configurationVariable); path != "" {
		if err := serve(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// descriptorsVariable is how many descriptors such a load balancer may have; empty for as many as the test program.
const descriptorsVariable = "KOK_APISERVER_LB_TEST_DESCRIPTORS"

func serve(path string) error {
	Economize()
	if few := os.Getenv(descriptorsVariable); few != "" {
		count, err := strconv.ParseUint(few, 10, 32)
		if err != nil {
			return err
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: count, Max: count}); err != nil {
			return err
		}
	}
	c, err := configuration.Read(path)
	if err != nil {
		return err
	}
	p, err := New(c, logr.Discard())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return p.Run(ctx)
}

// programVariable names a built program, which a benchmark then looks at instead: the test program has more
// in memory.
const programVariable = "KOK_APISERVER_LB"

// startProcess starts the load balancer in a process of its own, and returns when it serves.
func (s *stage) startProcess() *exec.Cmd {
	s.t.Helper()
	command := s.launch()
	s.eventuallyServes()
	return command
}

// launch starts the load balancer in a process of its own.
func (s *stage) launch() *exec.Cmd {
	s.t.Helper()
	content, err := yaml.Marshal(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	command := exec.CommandContext(s.t.Context(), os.Args[0])
	if built := os.Getenv(programVariable); built != "" {
		command = exec.CommandContext(s.t.Context(), built, "--config="+path)
	}
	command.Env = append(os.Environ(), configurationVariable+"="+path)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	return command
}

func (s *stage) eventuallyServes() {
	s.t.Helper()
	client := s.client()
	s.eventually("it serves", func() bool {
		_, err := s.get(s.t.Context(), client)
		return err == nil
	})
}

// process is what the kernel says of a process.
type process struct{ residentKiB, descriptors float64 }

func look(b *testing.B, pid int) process {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	var p process
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			p.residentKiB, err = strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		b.Fatal(err)
	}
	p.descriptors = float64(len(entries))
	return p
}

// metric reads one of the process's own metrics.
func (s *stage) metric(name string) float64 {
	s.t.Helper()
	response, err := http.Get("http://" + s.config.StatusAddress + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return number
		}
	}
	s.t.Fatalf("no metric %s", name)
	return 0
}

// BenchmarkThousandConnections reports what a thousand open TLS connections, each of which has carried
// bytes and is idle, cost a load balancer in a process of its own.
func BenchmarkThousandConnections(b *testing.B) {
	const count = 1000
	for b.Loop() {
		s := newStage(b, 3)
		pid := s.startProcess().Process.Pid
		before, stacksBefore := look(b, pid), s.metric("go_memstats_stack_inuse_bytes")
		connections := make([]*tls.Conn, count)
		for i := range connections {
			connections[i] = s.request(b)
		}
		after, stacks := look(b, pid), s.metric("go_memstats_stack_inuse_bytes")
		b.ReportMetric(before.residentKiB/1024, "MiB-at-start")
		b.ReportMetric(after.residentKiB/1024, "MiB-with-1000")
		b.ReportMetric((after.residentKiB-before.residentKiB)/count, "KiB/connection")
		b.ReportMetric((after.residentKiB-before.residentKiB-(stacks-stacksBefore)/1024)/count, "KiB-without-stacks/connection")
		b.ReportMetric((stacks-stacksBefore)/1024/count, "KiB-stacks/connection")
		b.ReportMetric((after.descriptors-before.descriptors)/count, "descriptors/connection")
		for _, connection := range connections {
			_ = connection.Close()
		}
	}
}

// request opens a connection and asks one question over it.
func (s *stage) request(b *testing.B) *tls.Conn {
	b.Helper()
	connection, err := tls.Dial("tcp", s.config.ListenAddress, &tls.Config{RootCAs: s.authority.Pool(), ServerName: apiservertest.ServerName, MinVersion: tls.VersionTLS12})
	if err != nil {
		b.Fatal(err)
	}
	ask(b, connection, bufio.NewReader(connection))
	return connection
}

func ask(b *testing.B, connection io.Writer, reader *bufio.Reader) {
	b.Helper()
	if _, err := io.WriteString(connection, "GET /name HTTP/1.1\r\nHost: kubernetes\r\n\r\n"); err != nil {
		b.Fatal(err)
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.Fatal(err)
	}
	_ = response.Body.Close()
}

// BenchmarkPaths compares the way through the load balancer, in a process of its own, with the direct
// one: new TLS connections, requests on a kept connection, and bytes of large answers.
func BenchmarkPaths(b *testing.B) {
	s := newStage(b, 1)
	s.startProcess()
	for name, address := range map[string]string{"direct": s.servers[0].Address, "balanced": s.config.ListenAddress} {
		config := &tls.Config{RootCAs: s.authority.Pool(), ServerName: apiservertest.ServerName, MinVersion: tls.VersionTLS12}
		dial := func(b *testing.B) *tls.Conn {
			b.Helper()
			connection, err := tls.DialWithDialer(&net.Dialer{}, "tcp", address, config)
			if err != nil {
				b.Fatal(err)
			}
			return connection
		}
		b.Run("connection/"+name, func(b *testing.B) {
			for b.Loop() {
				_ = dial(b).Close()
			}
		})
		b.Run("request/"+name, func(b *testing.B) {
			connection := dial(b)
			defer func() { _ = connection.Close() }()
			reader := bufio.NewReader(connection)
			for b.Loop() {
				ask(b, connection, reader)
			}
		})
		b.Run("bytes/"+name, func(b *testing.B) {
			transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			}}
			defer transport.CloseIdleConnections()
			b.SetBytes(16 << 20)
			for b.Loop() {
				response, err := (&http.Client{Transport: transport}).Get("https://" + apiservertest.ServerName + "/bytes")
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, response.Body); err != nil || n != 16<<20 {
					b.Fatalf("%d bytes, %v", n, err)
				}
				_ = response.Body.Close()
			}
		})
	}
}
