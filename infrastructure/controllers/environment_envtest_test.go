//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
)

var environment *envtest.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if environment, err = envtest.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := grant(context.Background(), environment); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const managerAccount = "system:serviceaccount:kok-infrastructure-system:manager"

// grant gives the manager's account the rights that the provider is installed with, and no others.
func grant(ctx context.Context, environment *envtest.Environment) error {
	raw, err := os.ReadFile("../../config/infrastructure/rbac/role.yaml")
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(raw), "---\n")), role); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: managerAccount}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := environment.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	manager, err := client.New(asManager(environment), client.Options{Scheme: environment.Scheme, Mapper: environment.Client.RESTMapper()})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return manager.List(ctx, &infrav1.IDCHostList{}) == nil, nil
	})
}

func asManager(environment *envtest.Environment) *rest.Config {
	config := rest.CopyConfig(environment.Config)
	config.Impersonate.UserName = managerAccount
	config.QPS = -1
	return config
}

// site is one data centre with its inventory: a namespace, and the hosts in a fleet.
type site struct {
	*envtest.Environment
	t         *testing.T
	namespace string
	fleet     *fleet
	// hostClient is what controllers work on the fleet with.
	hostClient hostclient.Client
	// watchFilter is the value of the watch label that controllers care for; empty for all.
	watchFilter string
}

func newSite(t *testing.T) *site {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "site-"}}
	s := &site{Environment: environment, t: t, fleet: newFleet(t)}
	s.hostClient = s.fleet
	s.create(namespace)
	s.namespace = namespace.Name
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hosts"}, Data: map[string][]byte{"ssh-privatekey": []byte("x")}})
	s.cluster("blue")
	return s
}

// cluster adds a Cluster whose machines may have hosts.
func (s *site) cluster(name string) {
	s.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCCluster", Name: name}
	s.create(cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	if err := s.Client.Status().Update(s.t.Context(), cluster); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := s.Client.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHAj+gzk1xLq8xF8Uy1HDRvO3nDzVnPwD2zSTsmmmNYE"

// host adds a host to the inventory.
func (s *site) host(name string, change func(*infrav1.IDCHost)) {
	s.t.Helper()
	host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	host.Spec.SSHServer = infrav1.SSHServer{
		Address: "192.0.2.7", User: "admin", KeySecretRef: infrav1.SecretReference{Name: "hosts"}, HostKeys: []string{hostKey},
	}
	if change != nil {
		change(host)
	}
	s.create(host)
}

// machine adds a Machine with its bootstrap data and its IDCMachine, as Cluster API does.
func (s *site) machine(name string, change func(*infrav1.IDCMachine, *clusterv1.Machine)) {
	s.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: "blue"}
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels}}
	owner.Spec.ClusterName = "blue"
	owner.Spec.Bootstrap.DataSecretName = ptr.To(name)
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCMachine", Name: name}
	machine := &infrav1.IDCMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels}}
	if change != nil {
		change(machine, owner)
	}
	cluster := get[clusterv1.Cluster](s, owner.Spec.ClusterName)
	owner.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}}
	s.create(owner)
	owned := []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, OwnerReferences: owned},
		Data:       map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")},
	})
	machine.OwnerReferences = owned
	s.create(machine)
}

func get[T any, P interface {
	*T
	client.Object
}](s *site, name string) P {
	s.t.Helper()
	object := P(new(T))
	if err := s.Client.Get(s.t.Context(), s.key(name), object); err != nil {
		s.t.Fatal(err)
	}
	return object
}

func (s *site) getHost(name string) *infrav1.IDCHost {
	s.t.Helper()
	return get[infrav1.IDCHost](s, name)
}
func (s *site) getMachine(name string) *infrav1.IDCMachine {
	s.t.Helper()
	return get[infrav1.IDCMachine](s, name)
}

// edit changes an object until no other write is faster.
func edit[T any, P interface {
	*T
	client.Object
}](s *site, name string, change func(P)) {
	s.t.Helper()
	s.eventually("the change is written", func() bool {
		object := get[T, P](s, name)
		change(object)
		err := s.Client.Update(s.t.Context(), object)
		if err != nil && !apierrors.IsConflict(err) {
			s.t.Fatal(err)
		}
		return err == nil
	})
}

func (s *site) delete(object client.Object, name string) {
	s.t.Helper()
	object.SetNamespace(s.namespace)
	object.SetName(name)
	if err := s.Client.Delete(s.t.Context(), object); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
}

func (s *site) gone(object client.Object, name string) bool {
	return apierrors.IsNotFound(s.Client.Get(s.t.Context(), s.key(name), object))
}

func (s *site) eventually(what string, is func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		s.t.Fatalf("wait until %s: %v", what, err)
	}
}

// says waits until a condition has a reason and a message with all parts, which it returns. A condition may have had the reason before.
func says(s *site, object interface {
	client.Object
	conditions.Getter
}, name, conditionType, reason string, parts ...string) string {
	s.t.Helper()
	object.SetNamespace(s.namespace)
	var last *metav1.Condition
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, s.key(name), object); err != nil {
			return false, err
		}
		last = conditions.Get(object, conditionType)
		return last != nil && last.Reason == reason && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(last.Message, part) }), nil
	})
	if err != nil {
		s.t.Fatalf("wait until %s of %s has reason %s and says %q: %v; it is %+v", conditionType, name, reason, parts, err, last)
	}
	return last.Message
}

// manager runs the controllers as the manager does: with caches and watches, and with the rights of the
// manager's role alone. It returns what stops it.
func (s *site) manager(change func(*MachineReconciler)) (stop func()) {
	s.t.Helper()
	mgr, err := ctrl.NewManager(asManager(s.Environment), ctrl.Options{
		Scheme:  s.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	machines := &MachineReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Hosts: s.hostClient, WatchFilterValue: s.watchFilter}
	if change != nil {
		change(machines)
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, reconciler := range []interface {
		SetupWithManager(context.Context, ctrl.Manager, controller.Options) error
	}{
		&HostReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Hosts: s.hostClient, WatchFilterValue: s.watchFilter},
		machines,
		&ClusterReconciler{Client: mgr.GetClient(), WatchFilterValue: s.watchFilter},
	} {
		if err := reconciler.SetupWithManager(ctx, mgr, controller.Options{
			MaxConcurrentReconciles: 10, SkipNameValidation: ptr.To(true),
			// As the manager has it, see internal/manager.
			UsePriorityQueue: ptr.To(false),
		}); err != nil {
			s.t.Fatal(err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	running := true
	stop = func() {
		if !running {
			return
		}
		running = false
		cancel()
		if err := <-stopped; err != nil {
			s.t.Errorf("the manager ended with %v", err)
		}
	}
	s.t.Cleanup(stop)
	return stop
}
