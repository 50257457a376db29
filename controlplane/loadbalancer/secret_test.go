package loadbalancer

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// loadBalancerTest is a tenant that has nothing but the pods of its API servers.
type loadBalancerTest struct {
	t      *testing.T
	keeper *Keeper
	facts  *Facts
	client client.Client
	writes int
}

// newLoadBalancerTest makes a cache that holds only our own objects, as the manager's cache does.
func newLoadBalancerTest(t *testing.T, present ...client.Object) *loadBalancerTest {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	test := &loadBalancerTest{t: t, client: fake.NewClientBuilder().WithScheme(types).WithObjects(present...).Build()}
	cached := interceptor.NewClient(test.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			live := &corev1.Secret{}
			if err := c.Get(ctx, key, live); err != nil || live.Labels[names.ManagedByLabel] == names.ManagedBy {
				return c.Get(ctx, key, object, options...)
			}
			return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			test.writes++
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			test.writes++
			return c.Update(ctx, object, options...)
		},
	})
	test.keeper = &Keeper{Client: cached, Live: test.client}
	test.facts = &Facts{
		Cluster:      client.ObjectKey{Namespace: "team", Name: "blue"},
		ControlPlane: &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", UID: "1"}},
		Wanted:       2, Ports: ports.Of(20000), ServiceCIDRs: []string{"10.96.0.0/16"},
	}
	return test
}

func (test *loadBalancerTest) run() {
	test.t.Helper()
	pods := &corev1.PodList{}
	if err := test.client.List(test.t.Context(), pods, client.InNamespace("team")); err != nil {
		test.t.Fatal(err)
	}
	test.facts.Pods = pods.Items
	if err := test.keeper.Ensure(test.t.Context(), test.facts); err != nil {
		test.t.Fatal(err)
	}
}

func (test *loadBalancerTest) secret() *corev1.Secret {
	test.t.Helper()
	secret := &corev1.Secret{}
	if err := test.client.Get(test.t.Context(), client.ObjectKey{Namespace: "team", Name: "blue-apiserver-lb"}, secret); err != nil {
		test.t.Fatal(err)
	}
	return secret
}

func (test *loadBalancerTest) expect(apiServers ...string) {
	test.t.Helper()
	parsed, err := configuration.Parse(test.secret().Data[Key])
	if err != nil {
		test.t.Fatal(err)
	}
	if !slices.Equal(parsed.SeedBackends, apiServers) {
		test.t.Errorf("the API servers are %v, want %v", parsed.SeedBackends, apiServers)
	}
}

func apiServerPod(name, host string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: names.ComponentLabels(client.ObjectKey{Namespace: "team", Name: "blue"}, names.KubeAPIServer)},
		Status:     corev1.PodStatus{HostIP: host},
	}
}

func TestOtherBootstrapProvidersLearnTheAPIServers(t *testing.T) {
	test := newLoadBalancerTest(t, apiServerPod("a", "192.0.2.1"), apiServerPod("b", ""))
	test.run()
	test.expect("192.0.2.1:20000")
	secret := test.secret()
	if secret.Type != clusterv1.ClusterSecretType || names.Tenant(secret) != test.facts.Cluster || len(secret.OwnerReferences) != 1 {
		t.Errorf("the Secret is %v", secret)
	}

	b := apiServerPod("b", "192.0.2.2")
	if err := test.client.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	test.run()
	test.expect("192.0.2.1:20000", "192.0.2.2:20000")

	test.writes = 0
	test.run()
	if err := test.client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	test.run()
	if test.writes != 0 {
		t.Errorf("a settled tenant and a rollout cost %d writes", test.writes)
	}

	// Its host leaves the pool.
	test.facts.Wanted = 1
	test.run()
	test.expect("192.0.2.1:20000")
}

// A ReplicaSet leaves a pod that kubelet evicted beside the one that it makes for it.
func TestAPodThatHasEndedIsNoAPIServer(t *testing.T) {
	evicted := apiServerPod("a", "192.0.2.1")
	evicted.Status.Phase = corev1.PodFailed
	test := newLoadBalancerTest(t, evicted, apiServerPod("b", "192.0.2.2"), apiServerPod("c", "192.0.2.3"))
	test.run()
	test.expect("192.0.2.2:20000", "192.0.2.3:20000")
}

func TestNoSecretIsWrittenBeforeAnAddressIsKnown(t *testing.T) {
	test := newLoadBalancerTest(t, apiServerPod("a", ""))
	test.run()
	if test.writes != 0 {
		t.Errorf("%d writes", test.writes)
	}
}

func TestALabelOrAnOwnerThatAPersonTookAwayComesBack(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Secret){
		"our label":  func(secret *corev1.Secret) { delete(secret.Labels, names.ManagedByLabel) },
		"its tenant": func(secret *corev1.Secret) { delete(secret.Labels, clusterv1.ClusterNameLabel) },
		"its owner":  func(secret *corev1.Secret) { secret.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			test := newLoadBalancerTest(t, apiServerPod("a", "192.0.2.1"))
			test.run()
			want := test.secret()
			edited := want.DeepCopy()
			edit(edited)
			if err := test.client.Update(t.Context(), edited); err != nil {
				t.Fatal(err)
			}
			test.run()
			got := test.secret()
			got.ResourceVersion = want.ResourceVersion
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASecretOfAPersonStays(t *testing.T) {
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-apiserver-lb"}, Data: map[string][]byte{"a": []byte("b")}}
	test := newLoadBalancerTest(t, theirs, apiServerPod("a", "192.0.2.1"))
	test.run()
	if data := test.secret().Data; len(data) != 1 || string(data["a"]) != "b" {
		t.Errorf("it is %v", data)
	}
}

func TestWorkersBeginWithTheAddressThatAllAPIServersShare(t *testing.T) {
	test := newLoadBalancerTest(t, apiServerPod("a", "192.0.2.1"))
	test.facts.Exposure = components.Exposure{Address: "198.51.100.7", Port: 6443}
	test.run()
	test.expect("198.51.100.7:6443")
}
