package discovery

import (
	"fmt"
	"net/http"
	"net/url"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
)

const (
	namespace = "default"
	name      = "kubernetes"
)

// Options say how API servers are reached, and as which user.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. Only its user counts. Files that it names, such as
	// kubelet's rotating certificate, are read again when they change.
	Kubeconfig string
	// Address is the load balancer's own, host:port.
	Address string
	// CAFile and ServerName verify the servers' certificates.
	CAFile     string
	ServerName string
	// UserAgent is how requests name this program.
	UserAgent string
	// StateFile is where the list is kept; empty for none.
	StateFile string
}

// configuration makes a client configuration of a kubeconfig, for one object and one server.
func (o Options) configuration(count *wire.Counter) (*rest.Config, error) {
	config, err := user(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Host, config.APIPath = "https://"+o.Address, "/apis"
	config.CAFile, config.CAData, config.ServerName, config.Insecure = o.CAFile, nil, o.ServerName, false
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.Dial = count.Dial
	config.UserAgent = o.UserAgent
	config.GroupVersion = &discoveryv1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// A scheme with one group saves the memory of all other groups.
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return config, nil
}

// lister lists and watches the one EndpointSlice.
func (o Options) lister(count *wire.Counter) (*cache.ListWatch, error) {
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
