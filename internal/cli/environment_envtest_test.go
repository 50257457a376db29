//go:build envtest

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
)

var (
	environment *envtest.Environment
	kubeconfig  string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if environment, err = envtest.Start(context.Background()); err != nil {
		return fail(err)
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := errors.Join(controlplanev1.AddToScheme(environment.Scheme), bootstrapv1.AddToScheme(environment.Scheme)); err != nil {
		return fail(err)
	}
	if _, err := ctrlenvtest.InstallCRDs(environment.Config, ctrlenvtest.CRDInstallOptions{
		Paths: []string{"../../config/controlplane/crd/bases", "../../config/bootstrap/crd/bases"}, ErrorIfPathMissing: true, MaxTime: testenvironment.Patience,
	}); err != nil {
		return fail(err)
	}
	folder, err := os.MkdirTemp("", "kok-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // A folder of the system's own.
	kubeconfig = filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.Kubeconfig, 0o600); err != nil {
		return fail(err)
	}
	return m.Run()
}

// site is a namespace that command lines are run for.
type site struct {
	t         *testing.T
	namespace string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "site-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	return s
}

// in is the site for a part of a test.
func (s *site) in(t *testing.T) *site { return &site{t: t, namespace: s.namespace} }

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := environment.Client.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// status writes the status of an object that was created.
func (s *site) status(object client.Object) {
	s.t.Helper()
	if err := environment.Client.Status().Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// has reports whether an object is there, and reads it.
func (s *site) has(name string, object client.Object) bool {
	s.t.Helper()
	err := environment.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err == nil
}

// kok runs the program for the namespace.
func (s *site) kok(arguments ...string) (status int, out, errOut string) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	all := append([]string{"kok"}, arguments...)
	if arguments[0] == "__complete" {
		all = append([]string{"kok", "__complete", "--kubeconfig", kubeconfig, "--namespace", s.namespace}, arguments[1:]...)
	} else {
		all = append(all, "--kubeconfig", kubeconfig, "--namespace", s.namespace)
	}
	status = Run(s.t.Context(), all, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	return status, stdout.String(), stderr.String()
}

// expect runs the program, and compares its exit status and parts of what it says.
func (s *site) expect(status int, parts []string, arguments ...string) (out string) {
	s.t.Helper()
	got, out, errOut := s.kok(arguments...)
	said := true
	for _, part := range parts {
		if !strings.Contains(out+errOut, part) {
			said = false
			s.t.Errorf("kok %s does not say %q", strings.Join(arguments, " "), part)
		}
	}
	if got != status || !said {
		s.t.Fatalf("kok %s ended with %d, want %d:\n%s%s", strings.Join(arguments, " "), got, status, out, errOut)
	}
	return out
}

// hostClient logs in as the manager does. What it finds on a host no test has: a server here runs no commands.
type hostClient struct{ *hostclient.SSH }

func (c hostClient) Probe(ctx context.Context, host *infrav1.IDCHost) (*probe.Facts, *probe.Problem, error) {
	_, _, err := c.SSH.Probe(ctx, host)
	var failed *ssh.Error
	if errors.As(err, &failed) {
		return nil, nil, err
	}
	return &probe.Facts{Architecture: "amd64", KernelVersion: "6.1.0", OSImage: "Debian GNU/Linux 12 (bookworm)", CPUs: 8, Memory: 16 << 30, Programs: []string{"containerd"}}, nil, nil
}

// manager runs the controller of hosts for the namespace.
func (s *site) manager() {
	s.t.Helper()
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: environment.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	reconciler := &controllers.HostReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Hosts: hostClient{&hostclient.SSH{Secrets: mgr.GetAPIReader()}},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	if err := reconciler.SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)}); err != nil {
		s.t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			s.t.Errorf("the manager ended with %v", err)
		}
	})
}
