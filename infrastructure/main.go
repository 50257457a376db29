// Command manager runs the IDC infrastructure provider: the controllers and webhooks of IDCHosts,
// IDCMachines and IDCClusters.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/nodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/manager"
)

const managerName = "kok-infrastructure-manager"

// options are the manager's flags.
type options struct {
	manager.Options

	concurrency    int
	cleanUpTimeout time.Duration
}

func (o *options) addTo(fs *pflag.FlagSet) {
	o.AddFlags(fs)
	fs.IntVar(&o.concurrency, "concurrency", 10, "Objects of each kind that are reconciled at the same time.")
	fs.DurationVar(&o.cleanUpTimeout, "clean-up-timeout", controllers.DefaultCleanUpTimeout, "How long the host of a deleted machine may be away. Then the machine goes; the host is in quarantine until it answers again and was cleaned.")
}

func main() {
	var opts options
	opts.addTo(pflag.CommandLine)
	manager.Main(&opts.Options, func(ctx context.Context) error { return run(ctx, &opts) })
}

func run(ctx context.Context, opts *options) error {
	if opts.cleanUpTimeout <= 0 {
		return fmt.Errorf("--clean-up-timeout is %s; it must be more than nothing, for example 10m", opts.cleanUpTimeout)
	}
	// Secrets are read one by one, and never listed. Of Nodes a cluster may have thousands.
	trimmed := map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: nodes.Trim}}
	mgr, err := opts.New(managerName, newScheme(), trimmed, &corev1.Secret{})
	if err != nil {
		return err
	}
	if err := setUp(ctx, mgr, opts); err != nil {
		return err
	}
	return manager.Start(ctx, mgr)
}

func setUp(ctx context.Context, mgr ctrl.Manager, opts *options) error {
	hostClient := &hostclient.SSH{Secrets: mgr.GetAPIReader()}
	concurrency := controller.Options{MaxConcurrentReconciles: opts.concurrency}
	for _, reconciler := range []interface {
		SetupWithManager(context.Context, ctrl.Manager, controller.Options) error
	}{
		&controllers.HostReconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Hosts: hostClient, WatchFilterValue: opts.WatchFilter,
		},
		&controllers.MachineReconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Hosts: hostClient, WatchFilterValue: opts.WatchFilter,
			CleanUpTimeout: opts.cleanUpTimeout,
		},
		&controllers.ClusterReconciler{Client: mgr.GetClient(), WatchFilterValue: opts.WatchFilter},
	} {
		if err := reconciler.SetupWithManager(ctx, mgr, concurrency); err != nil {
			return err
		}
	}
	return webhooks.SetupWithManager(mgr)
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
