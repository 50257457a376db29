// Package envtest starts a real etcd and kube-apiserver with the project's custom resource definitions
// and webhooks, for tests of what the API server decides: schema, CEL, admission, concurrency.
//
// The binaries come from the folder that KUBEBUILDER_ASSETS names; "make test-envtest" sets it.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	bootstrapwebhooks "github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// VersionsNamespace is where the ConfigMap with the table of Kubernetes versions can be, if there is one.
const VersionsNamespace = "kok-system"

// Environment is a running API server with our webhooks served by a manager.
type Environment struct {
	// Config reaches the API server as an administrator.
	Config *rest.Config
	// Scheme knows core Kubernetes, Cluster API's core and our types.
	Scheme *runtime.Scheme
	// Client has no cache.
	Client client.Client

	server  *envtest.Environment
	cancel  context.CancelFunc
	stopped chan error
	end     func() error
}

// Start starts the API server and a manager that serves the webhooks, and returns when both answer.
// configure may set flags of the API server before it starts. A signal that ends the program stops it, as Stop does.
func Start(ctx context.Context, configure ...func(*envtest.APIServer)) (*Environment, error) {
	e := &Environment{Scheme: runtime.NewScheme()}
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme)
	if err := builder.AddToScheme(e.Scheme); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	project, err := ModuleDir("github.com/kube-on-kube/cluster-api-provider-kok")
	if err != nil {
		return nil, err
	}
	clusterAPI, err := ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	hooks, err := WebhooksOf(project, "bootstrap", "controlplane")
	if err != nil {
		return nil, err
	}
	e.server = &envtest.Environment{
		CRDDirectoryPaths: []string{
			filepath.Join(project, "config", "bootstrap", "crd", "bases"),
			filepath.Join(project, "config", "controlplane", "crd", "bases"),
			filepath.Join(clusterAPI, "core", "config", "crd", "bases"),
		},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: hooks,
	}
	Patient(e.server)
	WithoutWatchCache(e.server.ControlPlane.GetAPIServer())
	for _, set := range configure {
		set(e.server.ControlPlane.GetAPIServer())
	}
	if e.end, err = interrupt.Guard(func() error { return e.start(ctx) }, e.stop); err != nil {
		return nil, err
	}
	return e, nil
}

// WithoutWatchCache has an API server read etcd for each list. A list by its watch cache waits until the cache has all that was written
// before, of any kind, and each write is decoded once more for it: clients here have no caches, and list between writes all the time.
func WithoutWatchCache(server *envtest.APIServer) { server.Configure().Set("watch-cache", "false") }

// Patient has an API server wait for its definitions and webhooks: the library gives up after ten seconds, which a busy machine takes.
func Patient(server *envtest.Environment) {
	server.CRDInstallOptions.MaxTime, server.WebhookInstallOptions.MaxTime = Patience, Patience
}

// Patience is how long a busy machine may take for what an idle one does in a second.
const Patience = 3 * time.Minute

func (e *Environment) start(ctx context.Context) (err error) {
	if e.Config, err = e.server.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both): %w", err)
	}
	if e.Client, err = client.New(e.Config, client.Options{Scheme: e.Scheme}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return e.serveWebhooks(ctx)
}

func (e *Environment) serveWebhooks(ctx context.Context) error {
	options := e.server.WebhookInstallOptions
	mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme:  e.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host:    options.LocalServingHost,
			Port:    options.LocalServingPort,
			CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	table, err := supported.SetupWithManager(mgr, VersionsNamespace)
	if err != nil {
		return err
	}
	if err := webhooks.SetupWithManager(mgr, webhooks.DefaultLimits(), table); err != nil {
		return err
	}
	if err := bootstrapwebhooks.SetupWithManager(mgr); err != nil {
		return err
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.stopped = make(chan error, 1)
	go func() { e.stopped <- mgr.Start(ctx) }()
	return e.waitForWebhooks(ctx, mgr.GetWebhookServer())
}

// Stop ends the manager, the API server and etcd.
func (e *Environment) Stop() error { return e.end() }

func (e *Environment) stop() error {
	var err error
	if e.cancel != nil {
		e.cancel()
		if err = <-e.stopped; err != nil {
			err = fmt.Errorf("stop the manager: %w", err)
		}
	}
	return errors.Join(err, e.server.Stop())
}

// ModuleDir asks the Go command where a module's source is; its output is one line made for programs.
func ModuleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find the source of module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
