//go:build attack

package namespaceuser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// stage is a management cluster with the three managers, and a cluster that is a tenant.
type stage struct {
	// project is the top folder of the repository, folder that of the managers' files.
	project, folder string
	// config and client are an administrator's.
	config *rest.Config
	client client.Client

	cluster, tenant *envtest.Environment
	// tenantConfig reaches the tenant as its administrator.
	tenantConfig *rest.Config
	managers     []*provider
}

func (s *stage) start() (err error) {
	if s.project, err = testenvironment.ModuleDir("github.com/kube-on-kube/cluster-api-provider-kok"); err != nil {
		return err
	}
	clusterAPI, err := testenvironment.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "namespaceuser-"); err != nil {
		return err
	}
	definitions := []string{filepath.Join(clusterAPI, "core", "config", "crd", "bases")}
	for _, name := range []string{"controlplane", "bootstrap", "infrastructure"} {
		s.managers = append(s.managers, &provider{name: name, namespace: "kok-" + name + "-system"})
		definitions = append(definitions, filepath.Join(s.project, "config", name, "crd", "bases"))
	}
	s.cluster = &envtest.Environment{CRDDirectoryPaths: definitions, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: patience}
	testenvironment.Patient(s.cluster)
	s.tenant = &envtest.Environment{ControlPlaneStartTimeout: patience}
	if s.config, err = s.cluster.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both): %w", err)
	}
	s.config.QPS = -1
	if s.client, err = client.New(s.config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		return err
	}
	if s.tenantConfig, err = s.tenant.Start(); err != nil {
		return fmt.Errorf("start the tenant: %w", err)
	}
	ctx := context.Background()
	if err := s.buildManagers(ctx); err != nil {
		return err
	}
	priority := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: components.PriorityClassName}, Value: 1_000_000_000}
	if err := s.client.Create(ctx, priority); err != nil {
		return err
	}
	for _, manager := range s.managers {
		if err := s.install(ctx, manager); err != nil {
			return fmt.Errorf("install the provider %s: %w", manager.name, err)
		}
		if err := manager.start(ctx, s); err != nil {
			return fmt.Errorf("start the manager of %s: %w", manager.name, err)
		}
	}
	return s.settleVictim(ctx)
}

// stop ends all that was started; the managers end first, for an API server that stops waits for its clients.
func (s *stage) stop() error {
	var errs []error
	for _, manager := range s.managers {
		manager.stop()
	}
	for _, server := range []*envtest.Environment{s.tenant, s.cluster} {
		if server != nil {
			errs = append(errs, server.Stop())
		}
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

// buildManagers builds the programs as the Makefile does.
func (s *stage) buildManagers(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", s.folder)
	for _, manager := range s.managers {
		build.Args = append(build.Args, "./"+manager.name)
	}
	build.Dir, build.Env = s.project, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the managers: %w\n%s", err, out)
	}
	return nil
}

// install makes what an installation of a provider brings: its namespace, service account and role, and its webhooks.
func (s *stage) install(ctx context.Context, p *provider) error {
	role := &rbacv1.ClusterRole{}
	raw, err := os.ReadFile(filepath.Join(s.project, "config", p.name, "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(raw), "---\n")), role); err != nil {
		return err
	}
	role.Name = p.namespace
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "manager"}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, account, role,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: account.Name}},
		},
	} {
		if err := s.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](6 * 3600)}}
	if err := s.client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("ask for the token of its service account: %w", err)
	}
	p.token = request.Status.Token
	if p.hooks, err = testenvironment.WebhooksOf(s.project, p.name); err != nil {
		return err
	}
	return p.hooks.Install(s.config)
}
