//go:build envtest

package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
)

// managerAccount is who the manager is, with the rights that the provider is installed with.
const managerAccount = "system:serviceaccount:kok-bootstrap-system:kok-bootstrap-manager"

// environment is an API server that is the management cluster and the tenant at once.
var environment *testenvironment.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.DPanicLevel)))
	os.Exit(testAll(m))
}

func testAll(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	tokensJoin := func(server *envtest.APIServer) { server.Configure().Set("enable-bootstrap-token-auth", "true") }
	if environment, err = testenvironment.Start(ctx, tokensJoin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := grant(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop, err := startManager()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	return m.Run()
}

// grant gives the manager's account the rights in config/bootstrap/rbac.
func grant(ctx context.Context) error {
	data, err := os.ReadFile("../config/bootstrap/rbac/role.yaml")
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		return err
	}
	// The core's manager may read its own kinds; a node may ask for a certificate.
	nodes := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "test-nodes"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}}},
	}
	for _, object := range []client.Object{
		role, nodes,
		binding(role.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerAccount}),
		binding(nodes.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}),
	} {
		if err := environment.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return nil
}

func binding(role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

// watchFilter is the value of the watch label that the manager cares for.
const watchFilter = "tested"

// startManager starts the program's controllers.
func startManager() (stop func(), _ error) {
	opts := &options{concurrency: 5, tenantConcurrency: 5, tenantQPS: 100, tenantBurst: 100, tokenTTL: tokens.DefaultTTL}
	opts.WatchFilter = watchFilter
	restConfig := rest.CopyConfig(environment.Config)
	restConfig.Impersonate.UserName = managerAccount
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme: newScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Cache: cache.Options{ByObject: controllers.Cache()},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := setUp(ctx, mgr, opts); err != nil {
		cancel()
		return nil, err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-stopped; err != nil {
			fmt.Fprintln(os.Stderr, "the manager ended:", err)
		}
	}, nil
}

// worker is a Machine with its KOKConfig, in a Cluster of its own.
type worker struct {
	t       *testing.T
	cluster *clusterv1.Cluster
	machine *clusterv1.Machine
	key     client.ObjectKey
}

// newWorker creates what a person and Cluster API's core would; edit may change the config before.
func newWorker(t *testing.T, edit func(*bootstrapv1.KOKConfig)) *worker {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	w := &worker{t: t}
	w.create(namespace)
	w.key = client.ObjectKey{Namespace: namespace.Name, Name: "worker-1"}

	labels := map[string]string{clusterv1.ClusterNameLabel: "blue", clusterv1.WatchLabel: watchFilter}
	w.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "blue", Labels: labels}}
	w.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KOKControlPlane", Name: "blue"}
	w.create(w.cluster)
	// Its connection ends with it: an API server that stops waits for the watches of its clients.
	t.Cleanup(func() { _ = environment.Client.Delete(context.Background(), w.cluster) })
	admin := kubeconfig.GenerateSecret(w.cluster, adminKubeconfig(t))
	admin.Labels = labels
	w.create(admin)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "blue-ca", Labels: labels}, Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"tls.crt": environment.Config.CAData},
	})

	w.machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: w.key.Name, Labels: labels}}
	w.machine.Spec.ClusterName, w.machine.Spec.Version = "blue", "v1.36.3"
	w.machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KOKConfig", Name: w.key.Name}
	w.machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "IDCMachine", Name: w.key.Name}
	w.create(w.machine)
	made := &bootstrapv1.KOKConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace.Name, Name: w.key.Name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: w.machine.Name, UID: w.machine.UID}},
	}}
	edit(made)
	w.create(made)
	return w
}

func (w *worker) create(object client.Object) {
	w.t.Helper()
	if err := environment.Client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// clusterIsUp is what the core writes when infrastructure and control plane are there.
func (w *worker) clusterIsUp() {
	w.t.Helper()
	w.cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
	if err := environment.Client.Status().Update(w.t.Context(), w.cluster); err != nil {
		w.t.Fatal(err)
	}
}

func adminKubeconfig(t *testing.T) []byte {
	t.Helper()
	from := environment.Config
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: from.Host, CertificateAuthorityData: from.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: from.CertData, ClientKeyData: from.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (w *worker) config() *bootstrapv1.KOKConfig {
	w.t.Helper()
	return w.configNamed(w.key.Name)
}

func (w *worker) configNamed(name string) *bootstrapv1.KOKConfig {
	w.t.Helper()
	found := &bootstrapv1.KOKConfig{}
	if err := environment.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: name}, found); err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *worker) secret() *corev1.Secret {
	w.t.Helper()
	found := &corev1.Secret{}
	if err := environment.Client.Get(w.t.Context(), w.key, found); err != nil {
		w.t.Fatal(err)
	}
	return found
}

// eventually waits for something to become true.
func (w *worker) eventually(what string, is func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, 60*time.Second, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		w.t.Fatalf("it does not come true that %s; the config's status is %+v", what, w.config().Status)
	}
}

func (w *worker) isCreated() bool {
	return ptr.Deref(w.config().Status.Initialization.DataSecretCreated, false)
}

// up is a worker whose bootstrap data is there.
func up(t *testing.T) *worker {
	t.Helper()
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	w.clusterIsUp()
	w.eventually("the bootstrap data is there", w.isCreated)
	return w
}
