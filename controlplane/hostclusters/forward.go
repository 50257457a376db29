package hostclusters

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	protocol "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// forwardTimeout bounds the way to a pod.
const forwardTimeout = 5 * time.Second

// forwarder leads connections to pods through the API server, as kubectl port-forward does: over a WebSocket, which
// API servers take since Kubernetes v1.31.
type forwarder struct {
	config *rest.Config
	// life is that of the connection to the host cluster, which connections to pods do not outlive.
	life context.Context //nolint:containedctx // See above.
	// timeout is forwardTimeout unless a test has less.
	timeout time.Duration
}

// dial implements Dial.
func (f forwarder) dial(ctx context.Context, pod client.ObjectKey, port int32) (net.Conn, error) {
	if f.timeout == 0 {
		f.timeout = forwardTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the host cluster's API server does not lead there within %v", f.timeout))
	defer cancel()
	defer context.AfterFunc(f.life, cancel)()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	// connect ends by the deadline, but does not notice every cancellation of its context.
	go func() {
		conn, err := f.connect(ctx, pod, port)
		done <- result{conn, err}
	}()
	var err error
	select {
	case <-ctx.Done():
		go func() {
			if late := <-done; late.conn != nil {
				_ = late.conn.Close()
			}
		}()
	case r := <-done:
		if r.err == nil {
			return r.conn, nil
		}
		err = r.err
	}
	// An end of the context makes connect fail as well, in words of its own.
	if ended := context.Cause(ctx); ended != nil {
		err = ended
	}
	return nil, fmt.Errorf("connect to port %d of pod %s: %w", port, pod, err)
}

func (f forwarder) connect(ctx context.Context, pod client.ObjectKey, port int32) (conn net.Conn, err error) {
	defer panics.Recover(ctx, "connecting to a pod", &err)
	transport, holder, err := websocket.RoundTripperFor(f.config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(f.config)
	if err != nil {
		return nil, err
	}
	url := base.JoinPath("api", "v1", "namespaces", pod.Namespace, "pods", pod.Name, "portforward")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	socket, err := websocket.Negotiate(transport, holder, request, protocol.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	tunnel := portforward.NewTunnelingConnection(pod.String(), socket)
	// An API server may fall silent here too.
	defer context.AfterFunc(ctx, func() { _ = tunnel.Close() })()
	streams, err := spdy.NewClientConnection(tunnel)
	if err != nil {
		return nil, err
	}
	failures, data, err := openStreams(streams, port)
	if err != nil {
		_ = streams.Close()
		return nil, err
	}
	return f.join(streams, failures, data), nil
}

// openStreams opens the two streams of a forwarded connection: for the kubelet's error, and for data.
func openStreams(streams httpstream.Connection, port int32) (failures, data httpstream.Stream, err error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	if failures, err = streams.CreateStream(headers); err != nil {
		return nil, nil, err
	}
	_ = failures.Close() // Nothing is written to it.
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err = streams.CreateStream(headers)
	return failures, data, err
}

// join makes a connection with deadlines of the streams, which have none.
func (f forwarder) join(streams httpstream.Connection, failures, data httpstream.Stream) net.Conn {
	near, far := net.Pipe()
	conn := &forwarded{Conn: near}
	end := func() { _, _ = near.Close(), streams.Close() }
	conn.end = end
	forget := context.AfterFunc(f.life, end)
	go func() {
		if err := f.failure(failures); err != nil {
			conn.failure.Store(err)
			end()
		}
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Close()
	}()
	go func() {
		_, _ = io.Copy(far, data)
		_ = far.Close()
		_ = streams.Close()
		forget()
	}()
	return conn
}

// failure waits for what the kubelet says of a connection that fails.
func (f forwarder) failure(failures io.Reader) (err error) {
	defer panics.Recover(f.life, "reading the kubelet's error", &err)
	said, _ := io.ReadAll(io.LimitReader(failures, 1024))
	if len(said) == 0 {
		return nil
	}
	return untrusted.WithoutSecrets(f.config, fmt.Errorf("the kubelet says: %s", said))
}

// forwarded is a connection to a pod.
type forwarded struct {
	net.Conn
	end func()
	// failure is what the kubelet says of the connection.
	failure atomic.Value
}

// Read says why a connection that failed ended.
func (c *forwarded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if failure, ok := c.failure.Load().(error); ok && err != nil {
		err = failure
	}
	return n, err
}

// Close ends the connection.
func (c *forwarded) Close() error {
	c.end()
	return nil
}
