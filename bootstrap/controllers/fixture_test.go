package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

var key = client.ObjectKey{Namespace: "team", Name: "worker-1"}

// fixture is a management cluster with one machine to bootstrap, and its tenant.
type fixture struct {
	t          *testing.T
	management client.WithWatch
	tenant     client.WithWatch
	clock      *testingclock.FakeClock
	reconciler *Reconciler
	// tokensCreated counts the tokens that the tenant was given.
	tokensCreated int
	// tenantRequests counts all requests to the tenant.
	tenantRequests int
	// fail makes a write of a Secret fail, by where it goes, "management" or "tenant", and by its verb.
	fail func(where, verb string, secret *corev1.Secret) error
	// failStatus makes the next write of the config's status fail.
	failStatus bool
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := newScheme(t)
	f := &fixture{t: t, clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	failing := func(where, verb string, object client.Object) error {
		secret, ok := object.(*corev1.Secret)
		if !ok || f.fail == nil {
			return nil
		}
		return f.fail(where, verb, secret)
	}
	f.management = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&bootstrapv1.KOKConfig{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if _, ok := object.(*bootstrapv1.KOKConfig); ok && f.failStatus {
				f.failStatus = false
				return context.DeadlineExceeded
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := failing("management", "create", object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
	})
	// The cache of the program has no other Secrets than those with the label.
	cached := interceptor.NewClient(f.management, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if secret, ok := object.(*corev1.Secret); ok && err == nil && secret.Labels[clusterv1.ClusterNameLabel] == "" {
				return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
			}
			return err
		},
	})
	f.tenant = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(apiServerSlice()).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			f.tenantRequests++
			return c.Get(ctx, key, object, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			f.tenantRequests++
			if err := failing("tenant", "create", object); err != nil {
				return err
			}
			err := c.Create(ctx, object, options...)
			if err == nil {
				f.tokensCreated++
			}
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			f.tenantRequests++
			if err := failing("tenant", "update", object); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			f.tenantRequests++
			if err := failing("tenant", "delete", object); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
	})
	f.reconciler = &Reconciler{
		Client: cached, APIReader: f.management, Clock: f.clock, TokenTTL: 15 * time.Minute,
		Tenants:  clustercache.NewFakeClusterCache(f.tenant, client.ObjectKey{Namespace: "team", Name: "blue"}),
		recorder: events.NewFakeRecorder(100),
	}
	return f
}

// ready are the objects of a machine that can be bootstrapped.
func ready() []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.96.0.0/12"}
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
	machine := &clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "worker-1", UID: "machine", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}},
	}
	machine.Spec.ClusterName, machine.Spec.Version = "blue", "v1.36.3"
	machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KOKConfig", Name: key.Name}
	config := &bootstrapv1.KOKConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "config",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}},
	}}
	authority := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-ca", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}},
		Data:       map[string][]byte{"tls.crt": []byte("-----BEGIN CERTIFICATE-----\n")},
	}
	return []client.Object{cluster, machine, config, authority}
}

func apiServerSlice() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.2"}}, {Addresses: []string{"192.0.2.1"}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](20000)}},
	}
}

// reconcile reconciles until nothing asks to be reconciled at once.
func (f *fixture) reconcile() (ctrl.Result, error) {
	f.t.Helper()
	// The first one only writes the Paused condition.
	if _, err := f.reconciler.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		return ctrl.Result{}, err
	}
	return f.reconciler.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key})
}

func (f *fixture) mustReconcile() ctrl.Result {
	f.t.Helper()
	result, err := f.reconcile()
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func get[T any, P interface {
	*T
	client.Object
}](f *fixture, from client.Client, name client.ObjectKey) P {
	f.t.Helper()
	object := P(new(T))
	if err := from.Get(f.t.Context(), name, object); err != nil {
		f.t.Fatal(err)
	}
	return object
}

func (f *fixture) config() *bootstrapv1.KOKConfig {
	return get[bootstrapv1.KOKConfig](f, f.management, key)
}

func (f *fixture) data() *corev1.Secret { return get[corev1.Secret](f, f.management, key) }

// changeMachine changes the Machine, and its status.
func (f *fixture) changeMachine(change func(*clusterv1.Machine)) {
	f.t.Helper()
	machine := get[clusterv1.Machine](f, f.management, key)
	change(machine)
	status := machine.DeepCopy()
	if err := f.management.Update(f.t.Context(), machine); err != nil {
		f.t.Fatal(err)
	}
	status.ResourceVersion = machine.ResourceVersion
	if err := f.management.Status().Update(f.t.Context(), status); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) join() {
	f.t.Helper()
	f.changeMachine(func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-1"} })
}

// rotateCA changes the Secret with the cluster's certificate authority.
func (f *fixture) rotateCA(change func(data map[string][]byte)) {
	f.t.Helper()
	authority := get[corev1.Secret](f, f.management, client.ObjectKey{Namespace: "team", Name: "blue-ca"})
	change(authority.Data)
	if err := f.management.Update(f.t.Context(), authority); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) expectCondition(kind string, status metav1.ConditionStatus, reason string) {
	f.t.Helper()
	condition := conditions.Get(f.config(), kind)
	if condition == nil || condition.Status != status || condition.Reason != reason {
		f.t.Errorf("condition %s is %+v, want %s with reason %s", kind, condition, status, reason)
	}
}

// tenantTokens are the bootstrap tokens that the tenant holds.
func (f *fixture) tenantTokens() []corev1.Secret {
	f.t.Helper()
	list := &corev1.SecretList{}
	if err := f.tenant.List(f.t.Context(), list, client.InNamespace("kube-system")); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}
