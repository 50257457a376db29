//go:build envtest

package templates

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	bootstrapwebhooks "github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	controlplanewebhooks "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
	infrawebhooks "github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

const (
	interval = 50 * time.Millisecond
	patience = time.Minute
)

// management is a management cluster: a real API server with the definitions and webhooks of Cluster API and of our
// providers, as they are released, and Cluster API's own manager as a process.
type management struct {
	client client.Client

	server *envtest.Environment
	// hooks are Cluster API's own webhooks.
	hooks   envtest.WebhookInstallOptions
	program string
	folder  string
	manager *daemon.Daemon
	// kill ends the manager that runs.
	kill func() error
	// metrics is where the manager that runs shows its own.
	metrics string
}

// released are the objects of a kustomization that a cluster must have before any other.
type released struct {
	definitions []*apiextensionsv1.CustomResourceDefinition
	mutating    []*admissionregistrationv1.MutatingWebhookConfiguration
	validating  []*admissionregistrationv1.ValidatingWebhookConfiguration
}

func (r *released) read(t *testing.T, folder string) {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range resources.Resources() {
		switch resource.GetKind() {
		case "CustomResourceDefinition":
			r.definitions = append(r.definitions, decode[apiextensionsv1.CustomResourceDefinition](t, resource.MustYaml()))
		case "MutatingWebhookConfiguration":
			r.mutating = append(r.mutating, decode[admissionregistrationv1.MutatingWebhookConfiguration](t, resource.MustYaml()))
		case "ValidatingWebhookConfiguration":
			r.validating = append(r.validating, decode[admissionregistrationv1.ValidatingWebhookConfiguration](t, resource.MustYaml()))
		}
	}
}

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.Unmarshal([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// startManagement starts all of it. It ends with the test.
func startManagement(t *testing.T) *management {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	m := &management{folder: t.TempDir()}
	m.build(t)
	module, err := testenvironment.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		t.Fatal(err)
	}
	var core, ours released
	core.read(t, filepath.Join(module, "core", "config", "default"))
	for _, provider := range []string{"controlplane", "bootstrap", "infrastructure"} {
		ours.read(t, filepath.Join("..", "config", provider, "default"))
	}
	m.server = &envtest.Environment{
		CRDs:                  append(core.definitions, ours.definitions...),
		WebhookInstallOptions: envtest.WebhookInstallOptions{MutatingWebhooks: ours.mutating, ValidatingWebhooks: ours.validating},
	}
	testenvironment.Patient(m.server)
	m.auditWrites(t)
	stop, err := interrupt.Guard(func() error { _, err := m.server.Start(); return err }, m.server.Stop)
	if err != nil {
		t.Fatalf("start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both): %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	if m.client, err = client.New(m.server.Config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		t.Fatal(err)
	}
	m.serveOurWebhooks(t, scheme.Scheme())
	m.hooks = envtest.WebhookInstallOptions{MutatingWebhooks: core.mutating, ValidatingWebhooks: core.validating, MaxTime: testenvironment.Patience}
	remove, err := interrupt.Guard(func() error { return m.hooks.Install(m.server.Config) }, m.hooks.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remove() })
	if err := os.WriteFile(m.path("kubeconfig"), m.server.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.kill != nil {
			_ = m.kill()
		}
		if t.Failed() {
			t.Logf("the end of the manager's log:\n%s", processes.LastLines(m.path("manager.log"), 60))
		}
	})
	m.startManager(t)
	return m
}

func (m *management) path(file string) string { return filepath.Join(m.folder, file) }

// build compiles Cluster API's manager where the cache has none.
func (m *management) build(t *testing.T) {
	t.Helper()
	cache, err := artifacts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if m.program, err = artifacts.EnsureClusterAPI(t.Context(), cache, func(step string) { t.Log(step) }); err != nil {
		t.Fatal(err)
	}
}

func (m *management) serveOurWebhooks(t *testing.T, types *runtime.Scheme) {
	t.Helper()
	options := m.server.WebhookInstallOptions
	mgr, err := ctrl.NewManager(m.server.Config, ctrl.Options{
		Scheme:  types,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, setup := range []func(ctrl.Manager) error{
		func(mgr ctrl.Manager) error {
			return controlplanewebhooks.SetupWithManager(mgr, controlplanewebhooks.DefaultLimits(), &supported.Versions{})
		},
		bootstrapwebhooks.SetupWithManager, infrawebhooks.SetupWithManager,
	} {
		if err := setup(mgr); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	check := mgr.GetWebhookServer().StartedChecker()
	eventually(t, "the webhook server", func() error { return check(nil) })
}

// eventually waits until there is no error.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	}); err != nil {
		t.Fatal(fmt.Errorf("wait for %s: %w: %w", what, err, last))
	}
}
