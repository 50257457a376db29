package manager

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

const (
	// TenantsNamespace has all tenants, which is the worst place for lists.
	TenantsNamespace = "tenants"
	// etcdQuota is room for the objects of thousands of tenants.
	etcdQuota = "8589934592"
)

// Stage is a management cluster where one provider is installed without its manager.
type Stage struct {
	// Provider is the folder in config whose role and webhooks are installed, Namespace is that of its manager.
	Provider, Namespace string
	// Kinds are the folders in config whose kinds the API server knows.
	Kinds []string

	// Folder goes away with the stage.
	Folder string
	Config *rest.Config
	Client client.Client

	server     *envtest.Environment
	hooks      envtest.WebhookInstallOptions
	kubeconfig string
}

// Start starts etcd and kube-apiserver, and installs the provider. configure may set flags of kube-apiserver.
func (s *Stage) Start(ctx context.Context, configure func(*envtest.APIServer)) error {
	project, err := testenvironment.ModuleDir("github.com/kube-on-kube/cluster-api-provider-kok")
	if err != nil {
		return err
	}
	clusterAPI, err := testenvironment.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	if s.Folder, err = os.MkdirTemp("", "bench-scale-"); err != nil {
		return err
	}
	s.server = &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(clusterAPI, "core", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	for _, kinds := range s.Kinds {
		s.server.CRDDirectoryPaths = append(s.server.CRDDirectoryPaths, filepath.Join(project, "config", kinds, "crd", "bases"))
	}
	configure(s.server.ControlPlane.GetAPIServer())
	s.server.ControlPlane.Etcd = &envtest.Etcd{}
	s.server.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", etcdQuota)
	if s.Config, err = s.server.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both): %w", err)
	}
	s.Config.QPS = -1
	if s.Client, err = client.New(s.Config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		return err
	}
	if err := s.install(ctx, project); err != nil {
		return fmt.Errorf("install the provider: %w", err)
	}
	return nil
}

// Stop ends all that Start started.
func (s *Stage) Stop() error {
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Stop())
	}
	_ = s.hooks.Cleanup() // It removes its own files alone.
	if s.Folder != "" {
		errs = append(errs, os.RemoveAll(s.Folder))
	}
	return errors.Join(errs...)
}

// install makes what an installation of the provider brings: its namespace, service account and role, and its webhooks.
func (s *Stage) install(ctx context.Context, project string) error {
	role := &rbacv1.ClusterRole{}
	raw, err := os.ReadFile(filepath.Join(project, "config", s.Provider, "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(raw), "---\n")), role); err != nil {
		return err
	}
	role.Name = s.Namespace
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "manager"}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: account.Name}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: TenantsNamespace}},
		account, role,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		},
	} {
		if err := s.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	if err := s.writeKubeconfig(ctx, account); err != nil {
		return err
	}
	if s.hooks, err = testenvironment.WebhooksOf(project, s.Provider); err != nil {
		return err
	}
	return s.hooks.Install(s.Config)
}

// writeKubeconfig gives the manager the rights of its role alone.
func (s *Stage) writeKubeconfig(ctx context.Context, account *corev1.ServiceAccount) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	if err := s.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("ask for the token of the manager's service account: %w", err)
	}
	s.kubeconfig = filepath.Join(s.Folder, "kubeconfig")
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: s.Config.Host, CertificateAuthorityData: s.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: request.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a", Namespace: s.Namespace}},
		CurrentContext: "a",
	}, s.kubeconfig)
}
