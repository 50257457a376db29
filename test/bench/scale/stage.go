package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/scale/standin"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

const (
	provider         = "controlplane"
	managerNamespace = "kok-control-plane-system"
	tenantsNamespace = "tenants"
	// serviceRange has addresses that this machine can listen on: what stands in for tenants listens at their Services.
	serviceRange = "127.250.0.0/16"
	// etcdQuota is room for the objects of thousands of tenants.
	etcdQuota = "8589934592"
)

// stage is a management cluster, which is the host cluster, too.
type stage struct {
	folder     string
	server     *envtest.Environment
	config     *rest.Config
	client     client.Client
	hooks      envtest.WebhookInstallOptions
	host       *standin.Host
	kubeconfig string
}

// start starts the API server, installs the provider without its manager, and starts what stands in for the rest.
func (s *stage) start(ctx context.Context) (err error) {
	project, err := testenvironment.ModuleDir("github.com/kube-on-kube/cluster-api-provider-kok")
	if err != nil {
		return err
	}
	clusterAPI, err := testenvironment.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "bench-scale-"); err != nil {
		return err
	}
	s.server = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(project, "config", provider, "crd", "bases"), filepath.Join(clusterAPI, "core", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	s.server.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", serviceRange)
	s.server.ControlPlane.Etcd = &envtest.Etcd{}
	s.server.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", etcdQuota)
	if s.config, err = s.server.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both): %w", err)
	}
	s.config.QPS = -1
	if s.client, err = client.New(s.config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		return err
	}
	if err := s.install(ctx, project); err != nil {
		return fmt.Errorf("install the provider: %w", err)
	}
	if s.host, err = standin.New(s.config); err != nil {
		return err
	}
	return s.host.Start(ctx)
}

func (s *stage) stop() error {
	var errs []error
	if s.host != nil {
		errs = append(errs, s.host.Stop())
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop())
	}
	_ = s.hooks.Cleanup() // It removes its own files alone.
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

// install makes what an installation of the provider brings: its namespace, service account and role, the class of its pods, and
// its webhooks.
func (s *stage) install(ctx context.Context, project string) error {
	role := &rbacv1.ClusterRole{}
	raw, err := os.ReadFile(filepath.Join(project, "config", provider, "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(raw), "---\n")), role); err != nil {
		return err
	}
	role.Name = managerNamespace
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "manager"}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: account.Name}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantsNamespace}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: components.PriorityClassName}, Value: 1_000_000_000},
		account, role,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		},
	} {
		if err := s.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	if err := s.writeKubeconfig(ctx, account); err != nil {
		return err
	}
	if s.hooks, err = testenvironment.WebhooksOf(project, provider); err != nil {
		return err
	}
	return s.hooks.Install(s.config)
}

// writeKubeconfig gives the manager the rights of its role alone.
func (s *stage) writeKubeconfig(ctx context.Context, account *corev1.ServiceAccount) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	if err := s.client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("ask for the token of the manager's service account: %w", err)
	}
	s.kubeconfig = filepath.Join(s.folder, "kubeconfig")
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: s.config.Host, CertificateAuthorityData: s.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: request.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a", Namespace: managerNamespace}},
		CurrentContext: "a",
	}, s.kubeconfig)
}
