// Package envtest starts a real etcd and kube-apiserver with Cluster API's definitions and ours, and
// our webhooks served by a manager, for tests of what the API server decides.
//
// The binaries come from the folder that KUBEBUILDER_ASSETS names; "make test-envtest" sets it.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/webhooks"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// Environment is a running API server.
type Environment struct {
	// Config reaches the API server as an administrator.
	Config *rest.Config
	// Scheme knows core Kubernetes, Cluster API's core and our types.
	Scheme *runtime.Scheme
	// Client has no cache.
	Client client.Client
	// Kubeconfig is a file's content that reaches the API server as an administrator.
	Kubeconfig []byte

	server  *envtest.Environment
	cancel  context.CancelFunc
	stopped chan error
	end     func() error
}

// Start starts the API server and the webhooks, and returns when both answer. A signal that ends the program stops them,
// as Stop does.
func Start(ctx context.Context) (*Environment, error) {
	e := &Environment{Scheme: runtime.NewScheme()}
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
	if err := builder.AddToScheme(e.Scheme); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	project, err := testenvironment.ModuleDir("github.com/kube-on-kube/cluster-api-provider-kok")
	if err != nil {
		return nil, err
	}
	clusterAPI, err := testenvironment.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	e.server = &envtest.Environment{
		CRDDirectoryPaths: []string{
			filepath.Join(project, "config", "infrastructure", "crd", "bases"),
			filepath.Join(clusterAPI, "core", "config", "crd", "bases"),
		},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			Paths: []string{filepath.Join(project, "config", "infrastructure", "webhook", "manifests.yaml")},
		},
	}
	testenvironment.Patient(e.server)
	testenvironment.WithoutWatchCache(e.server.ControlPlane.GetAPIServer())
	if e.end, err = interrupt.Guard(func() error { return e.start(ctx) }, e.stop); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Environment) start(ctx context.Context) (err error) {
	if e.Config, err = e.server.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both): %w", err)
	}
	e.Kubeconfig = e.server.KubeConfig
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
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	if err := webhooks.SetupWithManager(mgr); err != nil {
		return err
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.stopped = make(chan error, 1)
	go func() { e.stopped <- mgr.Start(ctx) }()
	check := mgr.GetWebhookServer().StartedChecker()
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return check(nil) == nil, nil })
	if err != nil {
		return fmt.Errorf("wait for the webhook server: %w", err)
	}
	return nil
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
