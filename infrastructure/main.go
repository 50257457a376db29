// Command manager runs the IDC infrastructure provider: the controllers and webhooks of IDCHosts,
// IDCMachines and IDCClusters.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

const managerName = "kok-infrastructure-manager"

// options are the manager's flags.
type options struct {
	leaderElection bool
	leaseDuration  time.Duration
	renewDeadline  time.Duration
	retryPeriod    time.Duration
	watchNamespace string
	watchFilter    string
	profiler       string
	syncPeriod     time.Duration
	qps            float32
	burst          int
	concurrency    int
	cleanUpTimeout time.Duration
	webhookPort    int
	webhookCertDir string
	healthAddress  string
	manager        flags.ManagerOptions
	logs           *logs.Options
}

func (o *options) addTo(fs *pflag.FlagSet) {
	o.logs = logs.NewOptions()
	logsv1.AddFlags(o.logs, fs)
	flags.AddManagerOptions(fs, &o.manager)
	fs.BoolVar(&o.leaderElection, "leader-elect", false, "Let only one of several managers be active.")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long a manager waits before it takes over from a silent leader.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the leader tries to renew its lease before it gives up.")
	fs.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "How long managers wait between two tries to get or renew the lease.")
	fs.StringVar(&o.watchNamespace, "namespace", "", "Namespace that is watched; empty for all.")
	fs.StringVar(&o.watchFilter, "watch-filter", "", fmt.Sprintf("Value of the label %s that objects must have to be reconciled; empty for all.", clusterv1.WatchLabel))
	fs.StringVar(&o.profiler, "profiler-address", "", "Address of the pprof profiler, for example localhost:6060; empty for none.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Hour, "How often all objects are reconciled although nothing happened.")
	fs.Float32Var(&o.qps, "kube-api-qps", 100, "Requests per second to the API server.")
	fs.IntVar(&o.burst, "kube-api-burst", 200, "Requests to the API server in one burst.")
	fs.IntVar(&o.concurrency, "concurrency", 10, "Objects of each kind that are reconciled at the same time.")
	fs.DurationVar(&o.cleanUpTimeout, "clean-up-timeout", controllers.DefaultCleanUpTimeout, "How long the host of a deleted machine may be away or fail to be clean; then it is put into quarantine and the machine goes.")
	fs.IntVar(&o.webhookPort, "webhook-port", 9443, "Port of the webhook server.")
	fs.StringVar(&o.webhookCertDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs/", "Directory with tls.crt and tls.key of the webhook server.")
	fs.StringVar(&o.healthAddress, "health-addr", ":9440", "Address of the health endpoint.")
}

func main() {
	var opts options
	opts.addTo(pflag.CommandLine)
	pflag.CommandLine.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if err := logsv1.ValidateAndApply(opts.logs, nil); err != nil {
		fmt.Fprintf(os.Stderr, "cannot start the manager: %v\n", err)
		os.Exit(1)
	}
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), &opts); err != nil {
		ctrl.Log.Error(err, "The manager ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, opts *options) error {
	if opts.cleanUpTimeout <= 0 {
		return fmt.Errorf("--clean-up-timeout must be more than nothing, for example 10m")
	}
	tlsOptions, metricsOptions, err := flags.GetManagerOptions(opts.manager)
	if err != nil {
		return fmt.Errorf("flags of the manager: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the management cluster: %w", err)
	}
	config.QPS, config.Burst = opts.qps, opts.burst
	config.UserAgent = managerName + "/" + version.Get().GitVersion

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        newScheme(),
		LeaderElection:                opts.leaderElection,
		LeaderElectionID:              managerName + "-leader-election",
		LeaseDuration:                 &opts.leaseDuration,
		RenewDeadline:                 &opts.renewDeadline,
		RetryPeriod:                   &opts.retryPeriod,
		LeaderElectionResourceLock:    resourcelock.LeasesResourceLock,
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        opts.healthAddress,
		PprofBindAddress:              opts.profiler,
		Metrics:                       *metricsOptions,
		Cache:                         cacheOptions(opts),
		// Secrets are read one by one, and never listed.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		WebhookServer: webhook.NewServer(webhook.Options{
			Port: opts.webhookPort, CertDir: opts.webhookCertDir, TLSOpts: tlsOptions,
		}),
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := setUp(ctx, mgr, opts); err != nil {
		return err
	}
	ctrl.Log.Info("Starting the manager", "version", version.Get().String())
	return mgr.Start(ctx)
}

func setUp(ctx context.Context, mgr ctrl.Manager, opts *options) error {
	operator := &controllers.SSHOperator{Secrets: mgr.GetAPIReader()}
	concurrency := controller.Options{MaxConcurrentReconciles: opts.concurrency}
	for _, reconciler := range []interface {
		SetupWithManager(context.Context, ctrl.Manager, controller.Options) error
	}{
		&controllers.HostReconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Operator: operator, WatchFilterValue: opts.watchFilter,
		},
		&controllers.MachineReconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Operator: operator, WatchFilterValue: opts.watchFilter,
			CleanUpTimeout: opts.cleanUpTimeout,
		},
		&controllers.ClusterReconciler{Client: mgr.GetClient(), WatchFilterValue: opts.watchFilter},
	} {
		if err := reconciler.SetupWithManager(ctx, mgr, concurrency); err != nil {
			return err
		}
	}
	if err := webhooks.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	if err := mgr.AddHealthzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	return nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

func cacheOptions(opts *options) cache.Options {
	options := cache.Options{SyncPeriod: &opts.syncPeriod}
	if opts.watchNamespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{opts.watchNamespace: {}}
	}
	return options
}
