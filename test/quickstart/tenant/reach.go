package tenant

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// reach finds a way to the ports of pods: straight, where this machine has a route to the host
// cluster's Services, else through the host cluster's API server.
type reach struct {
	config *rest.Config
	client kubernetes.Interface
	// stop ends every forwarded port.
	stop chan struct{}
}

func newReach(config *rest.Config) (*reach, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the host cluster: %w", err)
	}
	return &reach{config: config, client: client, stop: make(chan struct{})}, nil
}

func (r *reach) close() { close(r.stop) }

// address is address itself when the server that config trusts answers there, else a local one that
// leads to the pod's port. Certificates of components hold 127.0.0.1 too.
func (r *reach) address(ctx context.Context, address string, config *tls.Config, pod *corev1.Pod, port int) (string, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 2 * time.Second}, Config: config}
	if connection, err := dialer.DialContext(ctx, "tcp", address); err == nil {
		return address, connection.Close()
	}
	return r.forward(ctx, pod, port)
}

func (r *reach) forward(ctx context.Context, pod *corev1.Pod, port int) (string, error) {
	what := fmt.Sprintf("port %d of pod %s/%s through the host cluster's API", port, pod.Namespace, pod.Name)
	transport, upgrader, err := spdy.RoundTripperFor(r.config)
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", what, err)
	}
	url := r.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ready, failed := make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.New(dialer, []string{"0:" + strconv.Itoa(port)}, r.stop, ready, io.Discard, io.Discard)
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", what, err)
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return "", fmt.Errorf("reach %s: %w", what, err)
	case <-ctx.Done():
		return "", fmt.Errorf("reach %s: %w", what, context.Cause(ctx))
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", what, err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), nil
}
