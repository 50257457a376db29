package hostclusters

import (
	"context"
	"net"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/bytenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// Host is a host cluster.
type Host struct {
	// Client writes; its reads come from a cache that holds the controller's own objects only.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Applier applies renderings.
	Applier *apply.Applier
	// Claims are the claims of port blocks there.
	Claims *ports.Claims
	// Own is true when the host cluster is the management cluster: only then can objects there
	// have the control plane as their owner, and only then are addresses there reached directly.
	Own bool
	// Identity is another one for each connection; empty for the management cluster.
	Identity string
	// Dial connects to a port of a pod through the API server; nil for the management cluster.
	Dial Dial
	// Warning is what a person should do soon, lest the host cluster get out of reach; empty for nothing.
	Warning string
}

// Own is the management cluster as a host cluster, with the claims of port blocks in a namespace. Its client lists by the index of package
// bytenant.
func Own(mgr ctrl.Manager, portNamespace string, hostPorts ports.Span) *Host {
	cached := bytenant.Client(mgr.GetClient())
	return &Host{
		Client: cached, Live: mgr.GetAPIReader(), Applier: apply.New(cached, mgr.GetAPIReader()),
		Claims: ports.New(cached, mgr.GetAPIReader(), portNamespace, hostPorts), Own: true,
	}
}

// Dial connects to a port of a pod. It ends with its context, and gives up by itself after some seconds.
type Dial func(ctx context.Context, pod client.ObjectKey, port int32) (net.Conn, error)

// Problem is why a control plane has no host cluster at the moment.
type Problem struct {
	// Reason is that of conditions.
	Reason string
	// Message says what is wrong and what to do, without secrets, and in the same words as long as it lasts.
	Message string
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }
