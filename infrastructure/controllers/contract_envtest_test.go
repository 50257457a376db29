//go:build envtest

package controllers

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

// testContract runs the test of each rule in a site where a machine, worker-1, of the cluster blue runs on host-1.
func testContract(t *testing.T, followed rules.Contract, tests map[string]func(*testing.T, *site)) {
	contract.EveryRuleIsTested(t, followed, maps.Keys(tests))
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "rack-a" })
	infra := s.ofCluster("blue")
	infra.Labels = map[string]string{clusterv1.ClusterNameLabel: "blue"}
	s.create(infra)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.eventually("the cluster is provisioned", func() bool {
		return ptr.Deref(get[infrav1.IDCCluster](s, "blue").Status.Initialization.Provisioned, false)
	})
	for rule, test := range tests {
		t.Run(rule, func(t *testing.T) {
			inner := *s
			inner.t = t
			test(t, &inner)
		})
	}
}

// ofCluster is an IDCCluster that the Cluster blue owns.
func (s *site) ofCluster(name string) *infrav1.IDCCluster {
	s.t.Helper()
	infra := &infrav1.IDCCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	infra.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(get[clusterv1.Cluster](s, "blue"), clusterv1.GroupVersion.WithKind("Cluster"))}
	return infra
}

// definitions are the CustomResourceDefinitions of kinds as they are released.
func definitions(t *testing.T, kinds ...string) contract.Definitions {
	t.Helper()
	return contract.Read(t, "../../config/infrastructure/crd").Of(t, kinds...)
}

func allNamespaced(kinds ...string) func(*testing.T, *site) {
	return func(t *testing.T, _ *site) { definitions(t, kinds...).Namespaced(t) }
}

func allHaveMetadata(kinds ...string) func(*testing.T, *site) {
	return func(t *testing.T, _ *site) { definitions(t, kinds...).HaveMetadata(t) }
}

func allSayTheirContract(kinds ...string) func(*testing.T, *site) {
	return func(t *testing.T, _ *site) {
		definitions(t, kinds...).SayTheirContract(t, infrav1.GroupVersion.Group)
		for _, definition := range definitions(t, kinds...) {
			if _, moves := definition.Labels[clusterctlv1.ClusterctlMoveLabel]; moves != (definition.Spec.Names.Kind == "IDCHost") {
				t.Errorf("%s is moved without an owner: %t", definition.Name, moves)
			}
		}
	}
}

func kindAndList(kind string) func(*testing.T, *site) {
	return func(t *testing.T, _ *site) {
		definitions(t, kind).Define(t, infrav1.GroupVersion.WithKind(kind), environment.Scheme)
	}
}

// That clusterctl moves hosts and machines is TestMove.
func clusterctlIsSupported(t *testing.T, _ *site) {
	contract.SupportsClusterctl(t, "../..", "config/infrastructure/default", "idc", clusterctlv1.InfrastructureProviderType)
}

func raw(s *site, kind, name string) map[string]any {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
	if err := environment.Client.Get(s.t.Context(), s.key(name), object); err != nil {
		s.t.Fatal(err)
	}
	return object.Object
}

func mirrored(t *testing.T, s *site, kind, name string) {
	t.Helper()
	ready, err := conditions.UnstructuredGet(&unstructured.Unstructured{Object: raw(s, kind, name)}, clusterv1.ReadyCondition)
	if err != nil || ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason == "" {
		t.Errorf("Cluster API reads Ready as %v, %v", ready, err)
	}
}

// leftAloneWhilePaused pauses an object in each way that there is and takes from its status what its controller writes
// again, but not before the pause has ended. The reconciler is one that may write nothing.
func leftAloneWhilePaused[T any, P interface {
	*T
	client.Object
	conditions.Getter
}](s *site, name string, controller reconcile.Reconciler, take func(P), has func(P) bool) {
	s.t.Helper()
	byAnnotation := func(paused bool) {
		edit[T, P](s, name, func(object P) {
			object.SetAnnotations(nil)
			if paused {
				object.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
			}
		})
	}
	byCluster := func(paused bool) {
		edit(s, "blue", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(paused) })
	}
	for _, pause := range []func(bool){byAnnotation, byCluster} {
		pause(true)
		says(s, P(new(T)), name, clusterv1.PausedCondition, clusterv1.PausedReason)
		s.eventually("its status lacks something", func() bool {
			object := get[T, P](s, name)
			take(object)
			return s.Client.Status().Update(s.t.Context(), object) == nil
		})
		if _, err := controller.Reconcile(s.t.Context(), requestFor(get[T, P](s, name))); err != nil {
			s.t.Errorf("it is written to while it is paused: %v", err)
		}
		if has(get[T, P](s, name)) {
			s.t.Error("its status was written while it was paused")
		}
		pause(false)
		says(s, P(new(T)), name, clusterv1.PausedCondition, clusterv1.NotPausedReason)
		s.eventually("its status is whole again", func() bool { return has(get[T, P](s, name)) })
	}
}
