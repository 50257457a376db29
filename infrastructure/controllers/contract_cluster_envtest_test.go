//go:build envtest

package controllers

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

var clusterKinds = []string{"IDCCluster", "IDCClusterTemplate"}

// clusterRules has one test for each rule of Cluster API's contract for infrastructure clusters, by the name that the
// contract gives it.
var clusterRules = map[string]func(*testing.T, *site){
	"All resources: scope":                                               allNamespaced(clusterKinds...),
	"All resources: `TypeMeta` and `ObjectMeta`field":                    allHaveMetadata(clusterKinds...),
	"All resources: `APIVersion` field value":                            allSayTheirContract(clusterKinds...),
	"InfraCluster, InfraClusterList resource definition":                 kindAndList("IDCCluster"),
	"InfraCluster: control plane endpoint":                               endpointIsAPersons,
	"InfraCluster: failure domains":                                      failureDomainsAreListed,
	"InfraCluster: initialization completed":                             clusterIsProvisioned,
	"InfraCluster: conditions":                                           clusterIsReady,
	"InfraClusterTemplate, InfraClusterTemplateList resource definition": kindAndList("IDCClusterTemplate"),
	"Externally managed infrastructure":                                  externallyManagedIsLeftAlone,
	"Clusterctl support":                                                 clusterctlIsSupported,
	"InfraCluster: pausing":                                              clusterIsPaused,
}

func TestInfraClusterContract(t *testing.T) { testContract(t, rules.InfraCluster(), clusterRules) }

func endpointIsAPersons(t *testing.T, s *site) {
	if got := get[infrav1.IDCCluster](s, "blue").Spec.ControlPlaneEndpoint; got != (infrav1.APIEndpoint{}) {
		t.Errorf("an endpoint was made: %v", got)
	}
	given := infrav1.APIEndpoint{Host: "tenant.example", Port: 6443}
	edit(s, "blue", func(c *infrav1.IDCCluster) { c.Spec.ControlPlaneEndpoint = given })
	s.eventually("the change is seen", func() bool {
		c := get[infrav1.IDCCluster](s, "blue")
		return c.Status.ObservedGeneration == c.Generation && c.Spec.ControlPlaneEndpoint == given
	})
	value, found, err := unstructured.NestedFieldNoCopy(raw(s, "IDCCluster", "blue"), "spec", "controlPlaneEndpoint", "host")
	if err != nil || !found || value != "tenant.example" {
		t.Errorf("Cluster API reads %v, %v", value, err)
	}
}

func failureDomainsAreListed(t *testing.T, s *site) {
	s.host("other-rack", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "rack-b" })
	s.host("same-rack", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "rack-b" })
	want := []string{"rack-a", "rack-b"}
	s.eventually("they are listed", func() bool {
		var names []string
		for _, domain := range get[infrav1.IDCCluster](s, "blue").Status.FailureDomains {
			names = append(names, domain.Name)
		}
		return slices.Equal(names, want)
	})
	for _, name := range []string{"other-rack", "same-rack"} {
		s.delete(&infrav1.IDCHost{}, name)
	}
	s.eventually("it is gone with its hosts", func() bool { return len(get[infrav1.IDCCluster](s, "blue").Status.FailureDomains) == 1 })
}

func clusterIsProvisioned(t *testing.T, s *site) {
	value, found, err := unstructured.NestedBool(raw(s, "IDCCluster", "blue"), "status", "initialization", "provisioned")
	if err != nil || !found || !value {
		t.Errorf("Cluster API reads %t, %v", value, err)
	}
}

func clusterIsReady(t *testing.T, s *site) { mirrored(t, s, "IDCCluster", "blue") }

func externallyManagedIsLeftAlone(t *testing.T, s *site) {
	infra := s.ofCluster("external")
	infra.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "a person"}
	s.create(infra)
	r := &ClusterReconciler{Client: environment.Client}
	if _, err := r.Reconcile(t.Context(), requestFor(infra)); err != nil {
		t.Fatal(err)
	}
	if got := get[infrav1.IDCCluster](s, "external").Status; got.Initialization.Provisioned != nil || len(got.Conditions) > 0 {
		t.Errorf("its status is %+v", got)
	}
}

func clusterIsPaused(_ *testing.T, s *site) {
	leftAloneWhilePaused(s, "blue", s.program(&mortal{writesLeft: 0}).clusters,
		func(c *infrav1.IDCCluster) { c.Status.FailureDomains = nil },
		func(c *infrav1.IDCCluster) bool { return len(c.Status.FailureDomains) > 0 })
}
