//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/watches"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// There is no etcd in these tests, so that its health is unknown; the lab's tests ask real ones.
func noEtcd(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
	return nil, errors.New("there is no etcd in this test")
}

// patient asks within a reconcile and waits for the answer, so that a test knows when all is said. As a Prober does, it keeps a good answer
// until another thing is asked, or what prompts the question has changed. Without kept it keeps none.
type patient struct{ kept *sync.Map }

// keptAnswer is a good answer, and what was asked.
type keptAnswer struct {
	identity, prompt string
	result           probe.Result
}

func (p patient) Probe(key probe.Key, asked probe.Probe) (probe.Result, bool) {
	if p.kept != nil {
		if kept, ok := p.kept.Load(key); ok && kept.(keptAnswer).identity == asked.Identity && kept.(keptAnswer).prompt == asked.Prompt {
			return kept.(keptAnswer).result, true
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), probe.Timeout)
	defer cancel()
	result := asked.Do(ctx)
	switch {
	case p.kept == nil:
	case result.Problem == "":
		p.kept.Store(key, keptAnswer{asked.Identity, asked.Prompt, result})
	default:
		p.kept.Delete(key)
	}
	return result, true
}

// Withdraw forgets one answer.
func (p patient) Withdraw(key probe.Key) {
	if p.kept != nil {
		p.kept.Delete(key)
	}
}

// Forget forgets the answers about an object.
func (p patient) Forget(object client.ObjectKey) {
	if p.kept == nil {
		return
	}
	p.kept.Range(func(key, _ any) bool {
		if key.(probe.Key).Object == object {
			p.kept.Delete(key)
		}
		return true
	})
}

// patientOperator operates within a reconcile, so that a test knows when all is done.
type patientOperator struct{ r *Reconciler }

func (p patientOperator) Operate(task *operator.Task) (*operator.Report, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), probe.Timeout)
	defer cancel()
	return operator.New(p.r.etcd, p.r.Clock, p.r.recorder).Run(ctx, task), true
}

func (patientOperator) Forget(client.ObjectKey) {}

// nobodyElse is for programs without other host clusters.
type nobodyElse struct{}

func (nobodyElse) Of(context.Context, client.ObjectKey, client.ObjectKey, bool) (*Host, error) {
	return nil, errors.New("there is no other host cluster in this test")
}

func (nobodyElse) Release(client.ObjectKey) {}

// program is one run of the controller without caches and watches: a test calls it step by step.
type program struct {
	*Reconciler
	gate *gate
}

func newProgram(t *testing.T, g *gate) *program {
	t.Helper()
	inner, err := client.NewWithWatch(g.through(), client.Options{Scheme: environment.Scheme, Mapper: environment.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	c := writes.Tell(interceptor.NewClient(inner, interceptor.Funcs{List: listClusters}), writes.Management)
	r := &Reconciler{
		Client: c, APIReader: c,
		Host:     &Host{Client: trimming{c}, Live: c, Applier: apply.New(trimming{c}, c), Claims: ports.New(c, c, managerNamespace, ports.DefaultRange), Own: true},
		hosts:    nobodyElse{},
		Versions: &supported.Versions{},
		Clock:    clock.RealClock{},
		etcd:     operator.Etcd{Check: noEtcd},
		prober:   patient{&sync.Map{}},
		recorder: events.NewFakeRecorder(1000),
	}
	r.etcdOperator = patientOperator{r}
	r.steps = r.graph()
	return &program{Reconciler: r, gate: g}
}

// trimming is a client that shows only what the manager's cache keeps of objects.
type trimming struct{ client.Client }

func (c trimming) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	return trim(object)
}

func (c trimming) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := c.Client.List(ctx, list, options...); err != nil {
		return err
	}
	return meta.EachListItem(list, trim)
}

func trim(object runtime.Object) error {
	for kind, held := range watches.HostCache() {
		if reflect.TypeOf(kind) == reflect.TypeOf(object) && held.Transform != nil {
			_, err := held.Transform(object)
			return err
		}
	}
	return nil
}

// listClusters looks up the index that the manager's cache has.
func listClusters(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	clusters, ok := list.(*clusterv1.ClusterList)
	if !ok {
		return c.List(ctx, list, options...)
	}
	applied := (&client.ListOptions{}).ApplyOptions(options)
	name, indexed := applied.FieldSelector.RequiresExactMatch(watches.ControlPlaneRefIndex)
	applied.FieldSelector = nil
	if err := c.List(ctx, clusters, applied); err != nil || !indexed {
		return err
	}
	clusters.Items = slices.DeleteFunc(clusters.Items, func(cluster clusterv1.Cluster) bool {
		return !slices.Contains(watches.ControlPlaneRefOf(&cluster), name)
	})
	return nil
}

// tenantTest is one tenant with its host cluster and the program that cares for it.
type tenantTest struct {
	t       *testing.T
	key     client.ObjectKey
	cluster client.ObjectKey
	host    *hostCluster
	program *program
	// told are the etcds that tellEtcd set up.
	told *toldEtcd
	// restarts is how often another program took over from one that was killed.
	restarts int
	// lifetime is the number of the write after which each of those is killed too; zero for none.
	lifetime int
}

func newTenantTest(t *testing.T, edit func(*controlplanev1.KOKControlPlane)) *tenantTest {
	t.Helper()
	namespace := newNamespace(t)
	cluster, controlPlane := newTenant(t, namespace, "blue", edit)
	return &tenantTest{
		t: t, key: client.ObjectKeyFromObject(controlPlane), cluster: client.ObjectKeyFromObject(cluster),
		host: newHostCluster(t, namespace), program: newProgram(t, &gate{}),
	}
}

func (tt *tenantTest) reconcile() error {
	_, err := tt.program.Reconcile(tt.t.Context(), ctrl.Request{NamespacedName: tt.key})
	return err
}

// manyRounds is more than any story here takes; one that takes more does not come to rest.
const manyRounds = 100

// settle reconciles, and lets the host cluster work, until neither does anything any more.
func (tt *tenantTest) settle() {
	tt.t.Helper()
	var last error
	for range manyRounds {
		tt.program.gate.take()
		last = tt.reconcile()
		wrote := len(tt.program.gate.takeWrites()) > 0
		worked, err := tt.host.work(tt.t.Context())
		if err != nil {
			tt.t.Fatal(err)
		}
		if last == nil && !wrote && !worked {
			return
		}
	}
	tt.t.Fatalf("it does not come to rest; the last error was %v", last)
}

func (tt *tenantTest) controlPlane() *controlplanev1.KOKControlPlane {
	tt.t.Helper()
	controlPlane := &controlplanev1.KOKControlPlane{}
	if err := environment.Client.Get(tt.t.Context(), tt.key, controlPlane); err != nil {
		tt.t.Fatal(err)
	}
	return controlPlane
}

// edit changes an object as a person does.
func edit[T client.Object](t *testing.T, key client.ObjectKey, object T, change func(T)) {
	t.Helper()
	if err := environment.Client.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	before := object.DeepCopyObject().(client.Object)
	change(object)
	if err := environment.Client.Patch(t.Context(), object, client.MergeFrom(before), client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
}

func (tt *tenantTest) inNamespace(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: tt.key.Namespace, Name: name}
}

// objects are all objects of the tenant in its namespace, and its claims of port blocks.
func (tt *tenantTest) objects() []client.Object {
	tt.t.Helper()
	var all []client.Object
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &appsv1.ControllerRevisionList{},
		&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
	} {
		if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace)); err != nil {
			tt.t.Fatal(err)
		}
		all = append(all, objectsIn(list)...)
	}
	all = slices.DeleteFunc(all, func(o client.Object) bool { return o.GetName() == "kube-root-ca.crt" })
	claims := &corev1.ConfigMapList{}
	ofTenant := client.MatchingLabels{names.ClusterNamespaceLabel: tt.cluster.Namespace}
	if err := environment.Client.List(tt.t.Context(), claims, client.InNamespace(managerNamespace), ofTenant); err != nil {
		tt.t.Fatal(err)
	}
	return append(all, objectsIn(claims)...)
}

// objectsIn are the items of a list, with their kind.
func objectsIn(list client.ObjectList) []client.Object {
	items, err := meta.ExtractList(list)
	if err != nil {
		panic(err)
	}
	var objects []client.Object
	for _, item := range items {
		object := item.(client.Object)
		if gvk, err := environment.Client.GroupVersionKindFor(object); err == nil {
			object.GetObjectKind().SetGroupVersionKind(gvk)
		}
		objects = append(objects, object)
	}
	return objects
}

// kindsAndNames are the objects as "Kind name", sorted.
func kindsAndNames(objects []client.Object) []string {
	var all []string
	for _, object := range objects {
		all = append(all, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	}
	slices.Sort(all)
	return all
}
