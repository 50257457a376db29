// Command manager runs the KOK bootstrap provider: the controller and webhooks of KOKConfigs, the
// approval of kubelets' serving certificates, and the deletion of Nodes that lost their Machine.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/servingcertificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const managerName = "kok-bootstrap-manager"

// options are the manager's flags.
type options struct {
	manager.Options

	concurrency       int
	tenantConcurrency int
	tenantQPS         float32
	tenantBurst       int
	tokenTTL          time.Duration
}

func (o *options) addTo(fs *pflag.FlagSet) {
	o.AddFlags(fs)
	fs.IntVar(&o.concurrency, "kokconfig-concurrency", 50, "Configs that are reconciled at the same time.")
	fs.IntVar(&o.tenantConcurrency, "clustercache-concurrency", 50, "Clusters that are connected to, and whose serving certificates are decided on, at the same time.")
	fs.Float32Var(&o.tenantQPS, "clustercache-client-qps", 20, "Requests per second to the API server of one tenant.")
	fs.IntVar(&o.tenantBurst, "clustercache-client-burst", 30, "Requests to the API server of one tenant in one burst.")
	fs.DurationVar(&o.tokenTTL, "bootstrap-token-ttl", tokens.DefaultTTL, "How long a bootstrap token lives; it is renewed at half of it until the machine has joined. At least a minute.")
}

func main() {
	var opts options
	opts.addTo(pflag.CommandLine)
	manager.Main(&opts.Options, func(ctx context.Context) error { return run(ctx, &opts) })
}

func run(ctx context.Context, opts *options) error {
	if opts.tokenTTL < time.Minute {
		return fmt.Errorf("--bootstrap-token-ttl is %s; it must be at least a minute", opts.tokenTTL)
	}
	mgr, err := opts.New(managerName, newScheme(), controllers.Cache())
	if err != nil {
		return err
	}
	if err := setUp(ctx, mgr, opts); err != nil {
		return err
	}
	if err := webhooks.SetupWithManager(mgr); err != nil {
		return err
	}
	return manager.Start(ctx, mgr)
}

// setUp registers the controllers.
func setUp(ctx context.Context, mgr ctrl.Manager, opts *options) error {
	gate, err := tenantapi.NewGate(ctx, &tenantapi.Guards{}, tenantKinds...)
	if err != nil {
		return err
	}
	if err := mgr.Add(gate); err != nil {
		return fmt.Errorf("set up the gate to tenants: %w", err)
	}
	connections, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     gate.Reader(mgr.GetClient()),
		WatchFilterValue: opts.WatchFilter,
		ClusterFilter:    hasAPI,
		Cache:            clustercache.CacheOptions{DefaultTransform: cache.TransformStripManagedFields(), ByObject: servingcertificates.TenantCache()},
		Client: clustercache.ClientOptions{
			QPS: opts.tenantQPS, Burst: opts.tenantBurst, UserAgent: manager.UserAgent(managerName),
			Cache: clustercache.ClientCacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.Node{}}},
		},
	}, controller.Options{MaxConcurrentReconciles: opts.tenantConcurrency})
	if err != nil {
		return fmt.Errorf("set up the connections to tenants: %w", err)
	}
	tenants := loggedTenants{connections}
	if err := (&controllers.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Tenants: tenants, TenantProblem: gate.Problem,
		Clock: clock.RealClock{}, TokenTTL: opts.tokenTTL, WatchFilterValue: opts.WatchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: opts.concurrency}); err != nil {
		return err
	}
	if err := (&nodes.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Tenants: tenants, Guard: gate.Guard,
		Clock: clock.RealClock{}, WatchFilterValue: opts.WatchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: opts.tenantConcurrency}); err != nil {
		return err
	}
	return (&servingcertificates.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Tenants: tenants, Guard: gate.Guard, WatchFilterValue: opts.WatchFilter,
	}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: opts.tenantConcurrency})
}

// hasAPI keeps clustercache from connecting before there is an API: after a failure it would try again only half a minute
// later.
func hasAPI(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, kubeadmv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}
