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

func second[T any](_ T, err error) error { return err }
