// Command manager runs the KOK control plane provider: the controller and webhooks of
// KOKControlPlanes.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/watches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const managerName = "kok-control-plane-manager"

// options are the manager's flags.
type options struct {
	manager.Options

	concurrency   int
	portRange     string
	portNamespace string
	hostNodes     string
	anyToleration bool
	repositories  []string
	versions      string
	etcdAgent     string
	nodeKeys      string
	defragment    time.Duration
}

func (o *options) addTo(fs *pflag.FlagSet) {
	o.AddFlags(fs)
	fs.IntVar(&o.concurrency, "kokcontrolplane-concurrency", 10, "Control planes that are reconciled at the same time.")
	fs.StringVar(&o.portRange, "host-port-range", ports.DefaultRange.String(), "Range of host ports of control planes; blocks that are pinned must be in it too.")
	fs.StringVar(&o.portNamespace, "host-port-namespace", os.Getenv("POD_NAMESPACE"), "Namespace of the host cluster that holds the claims of port blocks; by default the manager's own.")
	fs.StringVar(&o.hostNodes, "host-node-selector", controlplanev1.HostNodeLabel+"=true", "Labels that every control plane's hosting.nodeSelector must contain, so that pods on the host network run on nodes meant for them; empty for no such rule.")
	fs.BoolVar(&o.anyToleration, "allow-any-toleration", false, "Let control planes tolerate every taint, and those of the host cluster's own control plane.")
	fs.StringSliceVar(&o.repositories, "allowed-image-repositories", nil, "Registries, with an optional path, that control planes' images may come from, for example registry.k8s.io,registry.example/k8s; empty or * for any.")
	fs.StringVar(&o.etcdAgent, "etcd-agent-image", "", "Image of kok-etcd-agent, which looks at the data of etcd's members before etcd starts; empty for no look.")
	fs.StringVar(&o.nodeKeys, "node-keys-image", "", "Image of kok-node-keys, which brings the nodes of a tenant through a rotation of the cluster CA; empty for none.")
	fs.DurationVar(&o.defragment, "etcd-defragmentation-interval", 24*time.Hour, "How long a member of etcd runs before it starts anew because most of its database, or what it needs before the quota, is free pages.")
	fs.StringVar(&o.versions, "kubernetes-versions-namespace", os.Getenv("POD_NAMESPACE"), fmt.Sprintf("Namespace whose ConfigMap %s, if there is one, is the table of Kubernetes versions in place of the one that is built in; by default the manager's own.", versions.ConfigMapName))
}

func main() {
	var opts options
	opts.addTo(pflag.CommandLine)
	manager.Main(&opts.Options, func(ctx context.Context) error { return run(ctx, &opts) })
}

// limits are what the flags allow control planes to ask for.
func (o *options) limits() (webhooks.Limits, error) {
	span, err := ports.ParseRange(o.portRange)
	if err != nil {
		return webhooks.Limits{}, fmt.Errorf("--host-port-range: %w", err)
	}
	nodes, err := webhooks.ParseHostNodes(o.hostNodes)
	if err != nil {
		return webhooks.Limits{}, fmt.Errorf("--host-node-selector: %w", err)
	}
	repositories, err := webhooks.ParseImageRepositories(o.repositories)
	if err != nil {
		return webhooks.Limits{}, fmt.Errorf("--allowed-image-repositories: %w", err)
	}
	return webhooks.Limits{HostPorts: span, HostNodes: nodes, AnyToleration: o.anyToleration, ImageRepositories: repositories}, nil
}

func run(ctx context.Context, opts *options) error {
	limits, err := opts.limits()
	if err != nil {
		return err
	}
	if opts.portNamespace == "" {
		return fmt.Errorf("--host-port-namespace must be set when POD_NAMESPACE is not")
	}
	if opts.versions == "" {
		return fmt.Errorf("--kubernetes-versions-namespace must be set when POD_NAMESPACE is not")
	}
	mgr, err := opts.New(managerName, newScheme(), watches.HostCache())
	if err != nil {
		return err
	}
	table, err := supported.SetupWithManager(mgr, opts.versions)
	if err != nil {
		return err
	}
	if err := table.Load(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}
	if err := setUp(ctx, mgr, opts, limits, table); err != nil {
		return err
	}
	return manager.Start(ctx, mgr)
}

func setUp(ctx context.Context, mgr ctrl.Manager, opts *options, limits webhooks.Limits, table *supported.Versions) error {
	reconciler := &controllers.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Host:      hostclusters.Own(mgr, opts.portNamespace, limits.HostPorts),
		Versions:  table,
		HostClusters: hostclusters.New(mgr.GetAPIReader(), mgr.GetClient(), hostclusters.Options{
			Scheme: mgr.GetScheme(), Kinds: watches.HostCache(), PortNamespace: opts.portNamespace, HostPorts: limits.HostPorts,
			UserAgent: mgr.GetConfig().UserAgent, QPS: mgr.GetConfig().QPS, Burst: mgr.GetConfig().Burst,
		}),
		Allow:               limits.Allow,
		Clock:               clock.RealClock{},
		WatchFilterValue:    opts.WatchFilter,
		EtcdAgentImage:      opts.etcdAgent,
		NodeKeysImage:       opts.nodeKeys,
		EtcdDefragmentEvery: opts.defragment,
		StatusWrites:        status.Writes{MessagesEvery: time.Second},
	}
	if err := reconciler.SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: opts.concurrency}); err != nil {
		return err
	}
	return webhooks.SetupWithManager(mgr, limits, table)
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}
