package hostclusters

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var member = client.ObjectKey{Namespace: "team", Name: "blue-etcd-data-0"}

// silent is the address of somebody who takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return "https://" + listener.Addr().String()
}

func TestAWayThroughASilentAPIServerEnds(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for name, test := range map[string]struct {
		ctx, life context.Context
		timeout   time.Duration
		says      string
	}{
		"with its time-out": {context.Background(), context.Background(), 50 * time.Millisecond, "within 50ms"},
		"with its context":  {ended, context.Background(), time.Minute, context.Canceled.Error()},
		"with the connection to the host cluster itself": {context.Background(), ended, time.Minute, context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			f := forwarder{config: &rest.Config{Host: silent(t)}, life: test.life, timeout: test.timeout}
			_, err := f.dial(test.ctx, member, 2379)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "team/blue-etcd-data-0") {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

func TestAPanicOnTheWayToAPodIsAnError(t *testing.T) {
	f := forwarder{life: t.Context()} // Without a configuration.
	_, err := f.dial(t.Context(), member, 2379)
	if err == nil || !strings.Contains(err.Error(), "connecting to a pod panicked; the manager's log has the stack") {
		t.Errorf("got %v", err)
	}
}

func TestAnAPIServerThatRefusesTheWayToAPodSaysWhy(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		http.Error(w, "no right to pods/portforward", http.StatusForbidden)
	}))
	defer server.Close()
	f := forwarder{config: &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, life: t.Context()}
	_, err := f.dial(t.Context(), member, 2379)
	if err == nil || !strings.Contains(err.Error(), "no right to pods/portforward") {
		t.Errorf("got %v", err)
	}
	if path := <-asked; path != "/api/v1/namespaces/team/pods/blue-etcd-data-0/portforward" {
		t.Errorf("asked for %s", path)
	}
}

// forwarding is an API server that leads to a pod which sends back what it gets.
func forwarding(t *testing.T) *httptest.Server {
	t.Helper()
	tunnels := websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			config.Protocol = slices.DeleteFunc(config.Protocol, func(name string) bool { return name != "SPDY/3.1+portforward.k8s.io" })
			return nil
		},
		Handler: func(socket *websocket.Conn) {
			socket.PayloadType = websocket.BinaryFrame
			streams, err := spdy.NewServerConnection(socket, func(opened httpstream.Stream, replied <-chan struct{}) error {
				go func() {
					<-replied
					if opened.Headers().Get(corev1.StreamType) == corev1.StreamTypeData && opened.Headers().Get(corev1.PortHeader) == "2379" {
						_, _ = io.Copy(opened, opened)
					}
					_ = opened.Close()
				}()
				return nil
			})
			if err == nil {
				<-streams.CloseChan()
			}
		},
	}
	server := httptest.NewTLSServer(tunnels)
	t.Cleanup(server.Close)
	return server
}

func TestAPodIsReachedThroughTheAPIServer(t *testing.T) {
	f := forwarder{config: &rest.Config{Host: forwarding(t).URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, life: t.Context()}
	conn, err := f.dial(t.Context(), member, 2379)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"hello", "again"} {
		if _, err := conn.Write([]byte(word)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(word))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != word {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// stream is one of a forwarded connection, with its other end in the test's hand.
type stream struct {
	net.Conn
	headers http.Header
}

func (s *stream) Reset() error         { return s.Close() }
func (s *stream) Headers() http.Header { return s.headers }
func (*stream) Identifier() uint32     { return 0 }

func TestAForwardedConnection(t *testing.T) {
	joinBy := func(t *testing.T, life context.Context, config *rest.Config) (conn, data, failures net.Conn) {
		t.Helper()
		nearData, farData := net.Pipe()
		nearFailures, farFailures := net.Pipe()
		streams := &connectionOf{nearData, nearFailures}
		return forwarder{config: config, life: life}.join(streams, &stream{Conn: nearFailures}, &stream{Conn: nearData}), farData, farFailures
	}
	join := func(t *testing.T, life context.Context) (conn, data, failures net.Conn) {
		t.Helper()
		return joinBy(t, life, &rest.Config{})
	}
	t.Run("carries bytes both ways", func(t *testing.T) {
		conn, data, _ := join(t, t.Context())
		go func() { _, _ = io.CopyN(data, data, 5) }()
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
		_ = conn.Close()
	})
	t.Run("heeds deadlines", func(t *testing.T) {
		conn, _, _ := join(t, t.Context())
		defer conn.Close() //nolint:errcheck // Nothing was written.
		_ = conn.SetReadDeadline(time.Now())
		var timeout net.Error
		if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v", err)
		}
	})
	t.Run("says what the kubelet says", func(t *testing.T) {
		conn, _, failures := join(t, t.Context())
		go func() {
			_, _ = failures.Write([]byte("connection refused"))
			_ = failures.Close()
		}()
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ends with a panic over what the kubelet says", func(t *testing.T) {
		conn, _, failures := joinBy(t, t.Context(), nil)
		go func() {
			_, _ = failures.Write([]byte("connection refused"))
			_ = failures.Close()
		}()
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "panicked; the manager's log has the stack") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ends with the connection to the host cluster", func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		conn, _, _ := join(t, life)
		end()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("it lasts")
		}
	})
}

// connectionOf are the streams of a connection.
type connectionOf struct{ data, failures net.Conn }

func (c *connectionOf) CreateStream(http.Header) (httpstream.Stream, error) {
	return nil, errors.New("no more")
}
func (c *connectionOf) Close() error                     { return errors.Join(c.data.Close(), c.failures.Close()) }
func (*connectionOf) CloseChan() <-chan bool             { return nil }
func (*connectionOf) SetIdleTimeout(time.Duration)       {}
func (*connectionOf) RemoveStreams(...httpstream.Stream) {}
