//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/metrics"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/watches"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

const managerAccount = "system:serviceaccount:" + managerNamespace + ":manager"

// startManager runs the controller as the manager does: with caches and watches, and with the rights
// of the manager's role alone. It returns what stops it.
func startManager(t *testing.T, g *gate) (stop func()) {
	t.Helper()
	return startManagerThatAsks(t, g, noEtcd)
}

// startManagerThatAsks is startManager with etcds that answer.
func startManagerThatAsks(t *testing.T, g *gate, check func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error)) (stop func()) {
	t.Helper()
	return startManagerThatChanges(t, g, check, nil)
}

// startManagerThatChanges is startManager with etcds that answer, and of which the members change.
func startManagerThatChanges(
	t *testing.T, g *gate, check func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error),
	change func(context.Context, membership.Kind, string, *etcd.Health, map[string]etcd.Address, *tls.Config) error,
) (stop func()) {
	t.Helper()
	access := g.through()
	access.Impersonate.UserName = managerAccount
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme:    environment.Scheme,
		Metrics:   metricsserver.Options{BindAddress: "0"},
		Cache:     cache.Options{ByObject: watches.HostCache()},
		NewClient: writes.NewClient,
		// One program runs many of them.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := mgr.GetClient()
	table, err := supported.SetupWithManager(mgr, managerNamespace)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{
		Client: c, APIReader: mgr.GetAPIReader(),
		Host: hostclusters.Own(mgr, managerNamespace, ports.DefaultRange),
		HostClusters: hostclusters.New(mgr.GetAPIReader(), c, hostclusters.Options{
			Scheme: environment.Scheme, Kinds: watches.HostCache(), PortNamespace: managerNamespace, HostPorts: ports.DefaultRange,
		}),
		Versions: table,
		Clock:    clock.RealClock{},
		etcd: operator.Etcd{Check: func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
			g.ask()
			return check(ctx, members, config)
		}, Change: change},
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := r.SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 10}); err != nil {
		t.Fatal(err)
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
			t.Errorf("the manager ended with %v", err)
		}
		ctrlmetrics.Registry.Unregister(metrics.NewCollector(nil))
	}
	t.Cleanup(stop)
	return stop
}

// grant gives the manager's account the rights that the provider is installed with.
func grant(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile("../../config/controlplane/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(raw), "---\n")), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: managerAccount}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := environment.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	// The authorizer learns of it a moment later.
	config := rest.CopyConfig(environment.Config)
	config.Impersonate.UserName = managerAccount
	manager, err := client.New(config, client.Options{Scheme: environment.Scheme, Mapper: environment.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager has its rights", func() bool {
		return manager.List(t.Context(), &controlplanev1.KOKControlPlaneList{}) == nil
	})
}

// keepWorking lets the host cluster work until the test ends.
func (h *hostCluster) keepWorking() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if _, err := h.work(ctx); err != nil && ctx.Err() == nil {
				h.t.Errorf("the host cluster: %v", err)
			}
			return false, nil
		})
	}()
	h.t.Cleanup(func() { cancel(); <-ended })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}

func (tt *tenantTest) available() bool {
	return conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) &&
		conditions.IsTrue(tt.controlPlane(), conditionsv1.ReconciledCondition)
}

func TestTheManagerCaresForTenants(t *testing.T) {
	grant(t)
	g, repaired := &gate{}, repairs(t)
	var tenants []*tenantTest
	for i := range 3 {
		tt := newTenantTest(t, single)
		if i == 0 {
			// Cluster API's core sets owner and label some time later.
			edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.OwnerReferences, c.Labels = nil, nil })
		}
		tt.host.keepWorking()
		tenants = append(tenants, tt)
	}
	stop := startManager(t, g)
	for _, tt := range tenants {
		eventually(t, "it is available", tt.available)
	}

	blocks := map[int32]bool{}
	for _, tt := range tenants {
		blocks[tt.controlPlane().Spec.Hosting.Ports.First] = true
		if n := tt.claims(); n != 1 {
			t.Errorf("%s has %d blocks of ports", tt.key, n)
		}
	}
	if len(blocks) != len(tenants) {
		t.Errorf("%d tenants have the blocks %v", len(tenants), slices.Collect(maps.Keys(blocks)))
	}

	comesToRest(t, g)
	// Its caches were late all the time.
	if n := repairs(t) - repaired; n != 0 {
		t.Errorf("it repaired %v objects that nobody had touched", n)
	}
	stop()
	g = &gate{}
	stop = startManager(t, g)
	t.Run("and costs no write when it starts anew", func(t *testing.T) {
		// Each reconcile of a tenant has its etcds asked.
		eventually(t, "all tenants are reconciled", func() bool { return g.questions() >= 2*len(tenants) })
		comesToRest(t, g)
		if writes := g.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
	t.Run("and repairs what it is not told of but sees", func(t *testing.T) {
		tt := tenants[2]
		name := tt.inNamespace("blue-kube-scheduler")
		edit(t, name, &appsv1.Deployment{}, func(d *appsv1.Deployment) {
			d.Labels = nil
			d.Spec.Template.Spec.NodeSelector["a"] = "b"
		})
		eventually(t, "it is repaired", func() bool {
			d := &appsv1.Deployment{}
			return environment.Client.Get(t.Context(), name, d) == nil && len(d.Labels) > 0 && d.Spec.Template.Spec.NodeSelector["a"] == ""
		})
		comesToRest(t, g)
	})
	t.Run("and lets them go", func(t *testing.T) {
		for _, tt := range tenants {
			tt.delete(tt.controlPlane())
		}
		for _, tt := range tenants {
			err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
				return apierrors.IsNotFound(environment.Client.Get(ctx, tt.key, &controlplanev1.KOKControlPlane{})), nil
			})
			if left := kindsAndNames(tt.objects()); err != nil || len(left) > 0 {
				t.Errorf("%v; left are %v", err, left)
			}
		}
	})
	stop()
	noSecretsWithoutSelector(t, g.take())
	if forbidden := g.forbidden(); len(forbidden) > 0 {
		t.Errorf("the role does not allow %v", forbidden)
	}
}

// repairs is how many objects were put back, as the metric says.
func repairs(t *testing.T) (sum float64) {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "kok_repairs_total" {
			for _, series := range family.GetMetric() {
				sum += series.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// comesToRest waits until nothing was written for a while.
func comesToRest(t *testing.T, g *gate) {
	t.Helper()
	const rest = 60 // Looks, and not seconds: a machine that stands still has not come to rest.
	before, looks := -1, 0
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		writes, idle := g.progress()
		if writes != before || !idle {
			before, looks = writes, 0
		}
		looks++
		return looks > rest, nil
	})
	if err != nil {
		t.Fatalf("it does not come to rest: %v", g.takeWrites())
	}
}

// A manager that is killed in the middle leaves late caches and half of the objects to the next one.
func TestTheNextManagerGoesOn(t *testing.T) {
	grant(t)
	for _, write := range sample.Of(t, 2, []int{5, 15, 25, 35}) {
		t.Run(fmt.Sprintf("after write %d", write), func(t *testing.T) {
			tt := newTenantTest(t, single)
			tt.host.keepWorking()
			g := &gate{killAfter: write}
			stop := startManager(t, g)
			eventually(t, "it is killed", g.died)
			stop()
			keys, pods := tt.keys(), tt.podUIDs()

			g = &gate{}
			stop = startManager(t, g)
			eventually(t, "it is available", tt.available)
			comesToRest(t, g)
			stop()
			for name, data := range keys {
				if now := tt.keys()[name]; fmt.Sprint(now) != fmt.Sprint(data) {
					t.Errorf("%s changed", name)
				}
			}
			for name, uid := range pods {
				if now := tt.podUIDs()[name]; now != uid {
					t.Errorf("pod %s was made anew", name)
				}
			}
			if n := tt.claims(); n != 1 {
				t.Errorf("it has %d blocks of ports", n)
			}
			tt.sameObjectsAs(objectsOfASingleTenant())
		})
	}
}

func (tt *tenantTest) sameObjectsAs(want []string) {
	tt.t.Helper()
	var got []string
	for _, name := range tt.made() {
		if name != "a claim of ports" {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		tt.t.Errorf("got  %v\nwant %v", got, want)
	}
}

// objectsOfASingleTenant are those of one with a single replica of everything.
func objectsOfASingleTenant() []string {
	return slices.DeleteFunc(objectsOfATenant(), func(name string) bool {
		return strings.HasPrefix(name, "PodDisruptionBudget ") || strings.HasPrefix(name, "Service ") && (strings.HasSuffix(name, "-1") || strings.HasSuffix(name, "-2"))
	})
}
