package discovery

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "default"
	name      = "kubernetes"
)

// Options say how API servers are reached and who asks.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. Only its user counts. Files that it names, such as
	// kubelet's rotating certificate, are read again when they change.
	Kubeconfig string
	// Address is the load balancer's own, host:port.
	Address string
	// CAFile and ServerName are what servers are known by.
	CAFile     string
	ServerName string
	// UserAgent is how requests name this program.
	UserAgent string
	// StateFile is where the list is kept; empty for nowhere.
	StateFile string
}

// traffic counts the bytes on the wire, those of TLS included.
type traffic struct {
	received, sent atomic.Uint64
}

// configuration makes a client configuration of a kubeconfig, for one object and one server.
func (o Options) configuration(count *traffic) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", o.Kubeconfig, err)
	}
	config.Host, config.APIPath = "https://"+o.Address, "/apis"
	config.CAFile, config.CAData, config.ServerName, config.Insecure = o.CAFile, nil, o.ServerName, false
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.Dial = count.dial
	config.UserAgent = o.UserAgent
	config.GroupVersion = &discoveryv1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// A scheme of one group keeps the memory of all others.
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return config, nil
}

// lister lists and watches the one EndpointSlice.
func (o Options) lister(count *traffic) (*cache.ListWatch, error) {
	config, err := o.configuration(count)
	if err != nil {
		return nil, err
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return cache.NewListWatchFromClient(client, "endpointslices", namespace, fields.OneTermEqualSelector("metadata.name", name)), nil
}

func (t *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialled, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &counted{dialled, t}, nil
}

type counted struct {
	net.Conn
	traffic *traffic
}

func (c *counted) Read(bytes []byte) (int, error) {
	n, err := c.Conn.Read(bytes)
	c.traffic.received.Add(uint64(n))
	return n, err
}

func (c *counted) Write(bytes []byte) (int, error) {
	n, err := c.Conn.Write(bytes)
	c.traffic.sent.Add(uint64(n))
	return n, err
}
