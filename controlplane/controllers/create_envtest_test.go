//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// workloads are the components whose workload exists.
func (tt *tenantTest) workloads() []string {
	tt.t.Helper()
	var found []string
	for _, object := range tt.objects() {
		switch object.GetObjectKind().GroupVersionKind().Kind {
		case "StatefulSet", "DaemonSet", "Deployment":
			found = append(found, object.GetLabels()[names.ComponentLabel])
		}
	}
	slices.Sort(found)
	return found
}

func TestComponentsStartInTheirOrder(t *testing.T) {
	t.Parallel()
	for first, second := range map[string]string{names.EtcdData: names.EtcdEvents, names.EtcdEvents: names.EtcdData} {
		t.Run(first+" is ready first", func(t *testing.T) {
			t.Parallel()
			startInOrder(t, first, second)
		})
	}
}

func startInOrder(t *testing.T, firstEtcd, secondEtcd string) {
	tt := newTenantTest(t, single)
	for _, component := range registry.Components.Names() {
		tt.host.stopped[component] = true
	}
	etcds := []string{names.EtcdData, names.EtcdEvents}
	for _, step := range []struct {
		starts string
		then   []string
		// says is a part of why it is not available then.
		says string
	}{
		{"", etcds, "etcd-data"},
		{firstEtcd, etcds, secondEtcd},
		{secondEtcd, append([]string{names.KubeAPIServer}, etcds...), "kube-apiserver"},
		{names.KubeAPIServer, registry.Components.Names(), "kube-controller-manager"},
		{names.KubeControllerManager, registry.Components.Names(), "kube-scheduler"},
	} {
		delete(tt.host.stopped, step.starts)
		tt.settle()
		if got := tt.workloads(); !slices.Equal(got, slices.Sorted(slices.Values(step.then))) {
			t.Errorf("once %q is ready there are %v", step.starts, got)
		}
		available := conditions.Get(tt.controlPlane(), conditionsv1.AvailableCondition)
		if available == nil || available.Status != metav1.ConditionFalse || !strings.Contains(available.Message, step.says) {
			t.Errorf("once %q is ready, available is %v", step.starts, available)
		}
	}
	delete(tt.host.stopped, names.KubeScheduler)
	tt.settle()
	if available := conditions.Get(tt.controlPlane(), conditionsv1.AvailableCondition); available.Status != metav1.ConditionTrue {
		t.Errorf("at the end, available is %v", available)
	}
}

// One member may be long in coming: what it runs on is away, or has no volume for it.
func TestAControlPlaneStartsWithAQuorumOfEachEtcd(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.tellEtcd(3)
	tt.host.stopped[names.EtcdEvents] = true
	tt.host.broken = func(pod *corev1.Pod) bool { return pod.Name == statustest.PodName(names.EtcdEvents, 2) }
	tt.settle()
	if got := tt.workloads(); !slices.Equal(got, []string{names.EtcdData, names.EtcdEvents}) {
		t.Errorf("while one etcd was founded and the other has no quorum there are %v", got)
	}
	delete(tt.host.stopped, names.EtcdEvents)
	tt.settle()
	if got := tt.workloads(); !slices.Equal(got, slices.Sorted(slices.Values(registry.Components.Names()))) {
		t.Errorf("with a quorum of both there are %v", got)
	}
}

func TestACreatedControlPlane(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.settle()
	controlPlane := tt.controlPlane()

	t.Run("says what Cluster API asks for", func(t *testing.T) {
		status := controlPlane.Status
		for what, is := range map[string]bool{
			"it has a finalizer":                   slices.Contains(controlPlane.Finalizers, controlplanev1.KOKControlPlaneFinalizer),
			"it has a block of ports":              controlPlane.Spec.Hosting.Ports.First >= 20000,
			"it has an endpoint":                   strings.HasPrefix(controlPlane.Spec.ControlPlaneEndpoint.Host, "127.250.") && controlPlane.Spec.ControlPlaneEndpoint.Port == 6443,
			"it is initialized":                    ptr.Deref(status.Initialization.ControlPlaneInitialized, false),
			"it has no nodes of its own":           ptr.Deref(status.ExternalManagedControlPlane, false),
			"it has its replicas":                  *status.Replicas == 3 && *status.DesiredReplicas == 3 && *status.ReadyReplicas == 3 && *status.UpToDateReplicas == 3 && *status.AvailableReplicas == 3,
			"it says its version":                  len(status.Versions) == 1 && status.Versions[0].Version == "v1.36.3" && status.Versions[0].Replicas == 3,
			"it sums up etcd":                      status.EtcdHealth == "3/3 3/3",
			"its status is of its spec":            status.ObservedGeneration == controlPlane.Generation,
			"it is available":                      conditions.IsTrue(controlPlane, conditionsv1.AvailableCondition),
			"its condition Initialized is true":    conditions.IsTrue(controlPlane, conditionsv1.InitializedCondition),
			"its certificates are available":       conditions.IsTrue(controlPlane, conditionsv1.CertificatesAvailableCondition),
			"its components are healthy":           conditions.IsTrue(controlPlane, conditionsv1.ControlPlaneComponentsHealthyCondition),
			"etcd's health is unknown without one": conditions.IsUnknown(controlPlane, conditionsv1.EtcdClusterHealthyCondition),
			"it does not roll out":                 conditions.IsFalse(controlPlane, conditionsv1.RollingOutCondition),
			"it does not scale up":                 conditions.IsFalse(controlPlane, conditionsv1.ScalingUpCondition),
			"it does not scale down":               conditions.IsFalse(controlPlane, conditionsv1.ScalingDownCondition),
			"it is not deleted":                    conditions.IsFalse(controlPlane, conditionsv1.DeletingCondition),
			"it is not paused":                     conditions.IsFalse(controlPlane, clusterv1.PausedCondition),
		} {
			if !is {
				t.Errorf("it is not true that %s: %+v", what, controlPlane)
			}
		}
	})

	t.Run("is made of these objects", func(t *testing.T) {
		var got []string
		for _, name := range kindsAndNames(tt.objects()) {
			if !strings.HasPrefix(name, "ConfigMap kok-ports-") && !strings.HasPrefix(name, "Pod ") && !strings.HasPrefix(name, "PersistentVolumeClaim ") {
				got = append(got, name)
			}
		}
		if want := objectsOfATenant(); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})

	t.Run("labels and owns all that it makes", func(t *testing.T) {
		for _, object := range tt.objects() {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			name := kind + " " + object.GetName()
			for key, value := range names.Labels(tt.cluster) {
				if object.GetLabels()[key] != value {
					t.Errorf("%s has label %s=%q", name, key, object.GetLabels()[key])
				}
			}
			inOwnNamespace := object.GetNamespace() == tt.key.Namespace
			made := kind != "Pod" && kind != "PersistentVolumeClaim"
			if owner := metav1.GetControllerOf(object); made && inOwnNamespace && (owner == nil || owner.UID != controlPlane.UID) {
				t.Errorf("%s is owned by %v", name, owner)
			}
			if slices.Contains(slices.Collect(maps.Keys(object.GetLabels())), clusterv1.ProviderNameLabel) {
				t.Errorf("%s has the label of a provider: an upgrade of it would delete the object", name)
			}
		}
	})

	t.Run("gives Cluster API a kubeconfig", func(t *testing.T) {
		secret := &corev1.Secret{}
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kubeconfig"), secret); err != nil {
			t.Fatal(err)
		}
		if secret.Type != clusterv1.ClusterSecretType || len(secret.Data["value"]) == 0 || secret.Labels[clusterv1.ClusterNameLabel] != "blue" {
			t.Errorf("type %s, labels %v", secret.Type, secret.Labels)
		}
	})
}

// objectsOfATenant are the objects of a control plane of the default size.
func objectsOfATenant() []string {
	var all []string
	for _, etcd := range []string{"blue-etcd-data", "blue-etcd-events"} {
		all = append(all, "StatefulSet "+etcd, "PodDisruptionBudget "+etcd, "ConfigMap "+etcd+"-config", "Service "+etcd+"-0", "Service "+etcd+"-1", "Service "+etcd+"-2")
	}
	all = append(all, "DaemonSet blue-kube-apiserver", "Service blue-kube-apiserver", "ConfigMap blue-kube-apiserver-config",
		"ControllerRevision blue-services-1", "ControllerRevision blue-spec-1", "Secret blue-key-material")
	for _, component := range []string{"blue-kube-controller-manager", "blue-kube-scheduler"} {
		all = append(all, "Deployment "+component, "PodDisruptionBudget "+component)
	}
	for _, component := range registry.Components.Names() {
		all = append(all, "ControllerRevision blue-"+component+"-1", "Secret blue-"+component+"-certs")
	}
	for _, secret := range []string{"apiserver-lb", "ca", "encryption", "etcd", "etcd-events", "kubeconfig", "proxy", "sa"} {
		all = append(all, "Secret blue-"+secret)
	}
	slices.Sort(all)
	return all
}

func TestASettledControlPlaneCostsNothing(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.settle()
	for name, program := range map[string]*program{"the same program": tt.program, "a new program": newProgram(t, &gate{})} {
		tt.program = program
		tt.program.gate.take()
		for range 3 {
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		if writes := tt.program.gate.takeWrites(); len(writes) > 0 {
			t.Errorf("%s wrote %v", name, writes)
		}
	}
}

// countedLists counts lists by kind.
type countedLists struct {
	client.Client
	lock sync.Mutex
	of   map[string]int
}

// List lists, and counts.
func (c *countedLists) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.of[fmt.Sprintf("%T", list)]++
	return c.Client.List(ctx, list, options...)
}

// What a reconcile decides from is read once, so that all of it fits together.
func TestAReconcileListsEachKindOnce(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.settle()
	for _, step := range []struct {
		name string
		edit func(*controlplanev1.KOKControlPlane)
	}{
		{"of a settled control plane", func(*controlplanev1.KOKControlPlane) {}},
		{"that adopts new renderings", func(c *controlplanev1.KOKControlPlane) { c.Spec.Rollout.After = metav1.Now() }},
	} {
		counted := &countedLists{Client: tt.program.Host.Client, of: map[string]int{}}
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, step.edit)
		tt.program.Host.Client = counted
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"*v1.PodList": 1, "*v1.ControllerRevisionList": 1, "*v1.ServiceList": 1}
		if diff := cmp.Diff(want, counted.of); diff != "" {
			t.Errorf("lists of a reconcile %s (want -, got +):\n%s", step.name, diff)
		}
		tt.program.Host.Client = counted.Client
	}
}

// Secrets of others are none of our business, and a cluster may have very many.
func TestSecretsAreNeverListedWithoutASelector(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	tt.program = newProgram(t, &gate{})
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if err := environment.Client.Delete(t.Context(), tt.controlPlane()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		if _, err := tt.host.work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	noSecretsWithoutSelector(t, tt.program.gate.take())
}

func noSecretsWithoutSelector(t *testing.T, requests []request) {
	t.Helper()
	lists := 0
	for _, r := range requests {
		if strings.HasSuffix(r.path, "/secrets") && r.method == "GET" {
			lists++
			if !strings.Contains(r.query, "labelSelector=") {
				t.Errorf("Secrets are listed without a selector: %s", r)
			}
		}
	}
	if lists == 0 {
		t.Error("no list of Secrets was seen at all")
	}
}

// Two tenants of one namespace must not share anything.
func TestTenantsHaveTheirOwnPortsAndKeys(t *testing.T) {
	t.Parallel()
	blue := newTenantTest(t, single)
	cluster, controlPlane := newTenant(t, blue.key.Namespace, "green", single)
	green := &tenantTest{t: t, key: client.ObjectKeyFromObject(controlPlane), cluster: client.ObjectKeyFromObject(cluster), host: blue.host, program: blue.program}
	blue.settle()
	green.settle()
	if a, b := blue.controlPlane().Spec, green.controlPlane().Spec; a.Hosting.Ports == b.Hosting.Ports || a.ControlPlaneEndpoint == b.ControlPlaneEndpoint {
		t.Errorf("both have ports %v and endpoint %v", a.Hosting.Ports, a.ControlPlaneEndpoint)
	}
	for _, name := range []string{"ca", "etcd", "etcd-events", "proxy", "sa"} {
		first, second := &corev1.Secret{}, &corev1.Secret{}
		for secret, of := range map[*corev1.Secret]string{first: "blue-", second: "green-"} {
			if err := environment.Client.Get(t.Context(), blue.inNamespace(of+name), secret); err != nil {
				t.Fatal(err)
			}
		}
		if string(first.Data["tls.key"]) == string(second.Data["tls.key"]) || len(first.Data["tls.key"]) == 0 {
			t.Errorf("both have the same key %s", name)
		}
	}
}

// Only the host nodes keep tenants with one block apart then: every pod asks for those of its pool.
func TestTenantsOfDifferentPortPoolsMayHaveOneBlock(t *testing.T) {
	t.Parallel()
	first := newTenantTest(t, single)
	first.settle()
	block := first.controlPlane().Spec.Hosting.Ports
	users := map[int64]string{}
	expect := func(tt *tenantTest, pool string) {
		t.Helper()
		tt.expectReconciled("in the pool "+pool, "")
		named := slices.ContainsFunc(tt.objects(), func(object client.Object) bool {
			return object.GetName() == strings.TrimSuffix(fmt.Sprintf("kok-ports-%d.%s", block.First, pool), ".")
		})
		if tt.claims() != 1 || !named {
			t.Errorf("in the pool %q it has %d claims, that of the block is there: %t", pool, tt.claims(), named)
		}
		user := *tt.podTemplates()["blue-etcd-data"].Spec.SecurityContext.RunAsUser
		if other, taken := users[user]; taken {
			t.Errorf("tenants of the pools %q and %q have the user %d", other, pool, user)
		}
		users[user] = pool
		tt.expectUser("in the pool "+pool, user)
		for name, template := range tt.podTemplates() {
			if template.Spec.NodeSelector[controlplanev1.PortPoolLabel] != pool || template.Spec.NodeSelector[controlplanev1.HostNodeLabel] != "true" {
				t.Errorf("%s of the pool %q runs on nodes with %v", name, pool, template.Spec.NodeSelector)
			}
		}
	}
	expect(first, "")
	for _, pool := range []string{"north", "south"} {
		tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
			single(c)
			c.Spec.Hosting.PortPool, c.Spec.Hosting.Ports = pool, block
		})
		tt.settle()
		expect(tt, pool)
		tt.delete(tt.controlPlane())
		tt.gone()
	}
	if first.claims() != 1 {
		t.Error("the tenant without a pool has lost its claim")
	}
}

func TestABlockOfPortsThatAnotherHoldsIsSaidToBe(t *testing.T) {
	t.Parallel()
	holder := newTenantTest(t, single)
	holder.settle()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		single(c)
		c.Spec.Hosting.Ports = holder.controlPlane().Spec.Hosting.Ports
	})
	tt.settle()
	available := conditions.Get(tt.controlPlane(), conditionsv1.AvailableCondition)
	if available.Status != metav1.ConditionFalse || !strings.Contains(available.Message, "belong to Cluster "+holder.cluster.String()) || !strings.Contains(available.Message, "hosting.ports.first") {
		t.Errorf("it says %v", available)
	}
	if made := tt.workloads(); len(made) > 0 || tt.claims() != 0 {
		t.Errorf("without ports there are %v", made)
	}

	holder.delete(holder.controlPlane())
	holder.gone()
	tt.settle()
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) || tt.claims() != 1 {
		t.Error("once the block is free it does not take it")
	}
}
