// Package manager has what all managers share: the flags of Cluster API's provider contract, logging, and how a manager is
// made and started.
package manager

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	_ "github.com/kube-on-kube/cluster-api-provider-kok/internal/panics" // kok_panics_total, also of a manager that has recovered none
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// Options are the flags that all managers have.
type Options struct {
	// WatchNamespace is the namespace that is watched; empty for all.
	WatchNamespace string
	// WatchFilter is the value of Cluster API's watch label that objects must have; empty for all.
	WatchFilter string

	leaderElection bool
	leaseDuration  time.Duration
	renewDeadline  time.Duration
	retryPeriod    time.Duration
	profiler       string
	syncPeriod     time.Duration
	qps            float32
	burst          int
	webhookPort    int
	webhookCertDir string
	metricsCertDir string
	healthAddress  string
	manager        flags.ManagerOptions
	logs           *logs.Options
}

// AddFlags adds the flags that all managers have.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.logs = logs.NewOptions()
	logsv1.AddFlags(o.logs, fs)
	flags.AddManagerOptions(fs, &o.manager)
	fs.BoolVar(&o.leaderElection, "leader-elect", false, "Let only one of several managers be active.")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long a manager waits before it takes over from a silent leader.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the leader tries to renew its lease before it gives up.")
	fs.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "How long managers wait between two tries to get or renew the lease.")
	fs.StringVar(&o.WatchNamespace, "namespace", "", "Namespace that is watched; empty for all.")
	fs.StringVar(&o.WatchFilter, "watch-filter", "", fmt.Sprintf("Value of the label %s that objects must have to be reconciled; empty for all.", clusterv1.WatchLabel))
	fs.StringVar(&o.profiler, "profiler-address", "", "Address of the pprof profiler, for example localhost:6060; empty for none.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Hour, "How often all objects are reconciled although nothing happened.")
	fs.Float32Var(&o.qps, "kube-api-qps", 100, "Requests per second to the API server.")
	fs.IntVar(&o.burst, "kube-api-burst", 200, "Requests to the API server in one burst.")
	fs.IntVar(&o.webhookPort, "webhook-port", 9443, "Port of the webhook server.")
	fs.StringVar(&o.webhookCertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs/", "Directory with tls.crt and tls.key of the webhook server.")
	fs.StringVar(&o.metricsCertDir, "metrics-cert-dir", "/tmp/k8s-metrics-server/serving-certs/", "Directory with tls.crt and tls.key of the metrics server; without the files it makes a certificate by itself, which nobody can verify.")
	fs.StringVar(&o.healthAddress, "health-addr", ":9440", "Address of the health endpoint.")
}

// Main reads the command line and runs until run returns or the process is told to end. It exits the
// process when run fails. All flags must have been added to pflag.CommandLine before.
func Main(o *Options, run func(context.Context) error) {
	pflag.CommandLine.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if err := logsv1.ValidateAndApply(o.logs, nil); err != nil {
		fmt.Fprintf(os.Stderr, "cannot start the manager: %v\n", err)
		os.Exit(1)
	}
	ctrl.SetLogger(klog.Background())
	if err := limitMemory(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot start the manager: %v\n", err)
		os.Exit(1)
	}
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "The manager ended")
		os.Exit(1)
	}
}

// UserAgent is how a manager presents itself to API servers.
func UserAgent(name string) string { return name + "/" + version.Get().GitVersion }

// New makes a manager with a name, which is also that of its leader election. byObject restricts its
// cache; uncached kinds are read from the API server.
func (o *Options) New(name string, scheme *runtime.Scheme, byObject map[client.Object]cache.ByObject, uncached ...client.Object) (ctrl.Manager, error) {
	tlsOptions, metricsOptions, err := flags.GetManagerOptions(o.manager)
	if err != nil {
		return nil, fmt.Errorf("flags of the manager: %w", err)
	}
	metricsOptions.CertDir = o.metricsCertDir
	access, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the management cluster: %w", err)
	}
	access.QPS, access.Burst = o.qps, o.burst
	access.UserAgent = UserAgent(name)

	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                o.leaderElection,
		LeaderElectionID:              name + "-leader-election",
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
		LeaderElectionResourceLock:    resourcelock.LeasesResourceLock,
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        o.healthAddress,
		PprofBindAddress:              o.profiler,
		Metrics:                       *metricsOptions,
		Cache:                         o.cacheOptions(byObject),
		NewClient:                     writes.NewClient,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: uncached}},
		// With controller-runtime v0.24.1 a stop can hang: the priority queue holds its lock while it hands
		// out an item that no worker takes any more.
		Controller: config.Controller{UsePriorityQueue: ptr.To(false)},
		WebhookServer: webhook.NewServer(webhook.Options{
			Port: o.webhookPort, CertDir: o.webhookCertDir, TLSOpts: tlsOptions,
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

func (o *Options) cacheOptions(byObject map[client.Object]cache.ByObject) cache.Options {
	options := cache.Options{SyncPeriod: &o.syncPeriod, ByObject: byObject}
	if o.WatchNamespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{o.WatchNamespace: {}}
	}
	return options
}

// Start starts a manager that is ready once its webhooks are served.
func Start(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	if err := mgr.AddHealthzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	ctrl.Log.Info("Starting the manager", "version", version.Get().String())
	return mgr.Start(ctx)
}
