package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// hosts is the number of host nodes in a port pool.
const hosts = 3

// late is how long a workload waits for a cache.
const late = 50 * time.Millisecond

// workers is how many workloads of a kind are worked on at once.
const workers = 10

// Host is the simulated part of a host cluster.
type Host struct {
	// Cached reads from the host's caches.
	Cached client.Client

	live   client.Client
	mgr    ctrl.Manager
	etcds  *grpc.Server
	apis   *http.Server
	served sync.Map // of places by their address
	// toEtcds and toAPIs count TLS handshakes.
	toEtcds, toAPIs atomic.Int64
	// openAPIs are the connections to APIs that are open now.
	openAPIs atomic.Int64
	ended    chan error
	cancel   context.CancelFunc
}

// New makes a Host for the cluster that access reaches as an administrator.
func New(access *rest.Config) (*Host, error) {
	access = rest.CopyConfig(access)
	access.QPS, access.UserAgent = -1, "bench-scale-host"
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme:  scheme.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		// As in the managers: with the priority queue a stop can hang.
		Controller: config.Controller{UsePriorityQueue: ptr.To(false)},
	})
	if err != nil {
		return nil, fmt.Errorf("make the simulated host cluster: %w", err)
	}
	live, err := client.New(access, client.Options{Scheme: scheme.Scheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, err
	}
	h := &Host{Cached: mgr.GetClient(), live: live, mgr: mgr, ended: make(chan error, 1)}
	h.etcds, h.apis = h.newEtcdServer(), h.newAPIServer()
	return h, h.setUpWorkloads()
}

// Start makes the host nodes of port pools, an empty one for none, and starts to work.
func (h *Host) Start(ctx context.Context, pools []string) error {
	for _, pool := range pools {
		for i := range hosts {
			if err := h.addNode(ctx, pool, i); err != nil {
				return err
			}
		}
	}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() { h.ended <- h.mgr.Start(ctx) }()
	// Who waits for one wakes it.
	if !h.mgr.GetCache().WaitForCacheSync(ctx) {
		return errors.New("the caches of the simulated host cluster are not filled")
	}
	return nil
}

// OnChange calls changed for each change of a control plane, one after the other.
func (h *Host) OnChange(ctx context.Context, changed func(before, after *controlplanev1.KOKControlPlane)) error {
	informer, err := h.mgr.GetCache().GetInformer(ctx, &controlplanev1.KOKControlPlane{})
	if err != nil {
		return fmt.Errorf("watch control planes: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
		before, wasOne := was.(*controlplanev1.KOKControlPlane)
		after, isOne := is.(*controlplanev1.KOKControlPlane)
		if wasOne && isOne && before.ResourceVersion != after.ResourceVersion {
			changed(before, after)
		}
	}})
	return err
}

// Stop ends it. The objects that it made stay.
func (h *Host) Stop() error {
	if h.cancel == nil {
		return nil
	}
	h.cancel()
	err := <-h.ended
	h.etcds.Stop()
	return errors.Join(err, h.apis.Close())
}

func nodeName(pool string, i int) string {
	if pool == "" {
		return fmt.Sprintf("host-%d", i)
	}
	return fmt.Sprintf("%s-host-%d", pool, i)
}

// Node is the label of one host node of a port pool alone.
func Node(pool string, i int) map[string]string {
	return map[string]string{corev1.LabelHostname: nodeName(pool, i)}
}

func hostNode(pool string, i int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(pool, i), Labels: Node(pool, i)}}
	node.Labels[controlplanev1.HostNodeLabel] = "true"
	if pool != "" {
		node.Labels[controlplanev1.PortPoolLabel] = pool
	}
	return node
}

func (h *Host) addNode(ctx context.Context, pool string, i int) error {
	node := hostNode(pool, i)
	if err := h.live.Create(ctx, node); err != nil {
		return fmt.Errorf("make node %s: %w", node.Name, err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	if err := h.live.Status().Update(ctx, node); err != nil {
		return fmt.Errorf("write the status of node %s: %w", node.Name, err)
	}
	return nil
}

// place is what is served at an address: a member of an etcd, or the API of a tenant.
type place struct {
	member *member
	api    *api
}

// placeOf finds what is served at the address of a connection's own end.
func (h *Host) placeOf(local net.Addr) (*place, error) {
	found, ok := h.served.Load(local.String())
	if !ok {
		return nil, fmt.Errorf("nothing is served at %s", local)
	}
	return found.(*place), nil
}

// Connections counts the connections to etcds and to tenants' APIs that were ever made.
func (h *Host) Connections() (etcds, apis int64) { return h.toEtcds.Load(), h.toAPIs.Load() }

// count counts connections to APIs while they are open.
func (h *Host) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		h.openAPIs.Add(1)
	case http.StateClosed, http.StateHijacked:
		h.openAPIs.Add(-1)
	}
}

// Asked counts the tenants' APIs that were asked since they were last counted from anew, and the etcds.
func (h *Host) Asked() (apis, etcds int) {
	h.served.Range(func(_, value any) bool {
		switch at := value.(*place); {
		case at.api != nil && at.api.asked.Load():
			apis++
		case at.member != nil && at.member.first() && at.member.asked.Load():
			etcds++
		}
		return true
	})
	return apis, etcds
}

// ForgetAsked lets Asked count from anew.
func (h *Host) ForgetAsked() {
	h.served.Range(func(_, value any) bool {
		at := value.(*place)
		if at.api != nil {
			at.api.asked.Store(false)
		}
		if at.member != nil {
			at.member.asked.Store(false)
		}
		return true
	})
}
