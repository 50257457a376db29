//go:build envtest

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract"
)

// contractRules has one test for each rule of Cluster API's contracts for infrastructure clusters and
// machines, by the name that the contracts give it. In the site a machine, worker-1, runs on host-1.
var contractRules = map[string]func(*testing.T, *site){
	"All resources: scope":                                               allNamespaced,
	"All resources: `TypeMeta` and `ObjectMeta`field":                    allHaveMetadata,
	"All resources: `APIVersion` field value":                            allSayTheirContract,
	"InfraCluster, InfraClusterList resource definition":                 kindAndList("IDCCluster"),
	"InfraCluster: control plane endpoint":                               endpointIsAPersons,
	"InfraCluster: failure domains":                                      failureDomainsAreListed,
	"InfraCluster: initialization completed":                             clusterIsProvisioned,
	"InfraCluster: conditions":                                           clusterIsReady,
	"InfraClusterTemplate, InfraClusterTemplateList resource definition": kindAndList("IDCClusterTemplate"),
	"Externally managed infrastructure":                                  externallyManagedIsLeftAlone,
	"InfraCluster: pausing":                                              clusterIsPaused,
	"InfraMachine, InfraMachineList resource definition":                 kindAndList("IDCMachine"),
	"InfraMachine: provider ID":                                          providerIDNamesTheHost,
	"InfraMachine: failure domain":                                       failureDomainIsObeyed,
	"InfraMachine: addresses":                                            addressesAreListed,
	"InfraMachine: initialization completed":                             machineIsProvisioned,
	"InfraMachine: conditions":                                           machineIsReady,
	"InfraMachine: terminal failures":                                    failuresAreConditions,
	"InfraMachineTemplate, InfraMachineTemplateList resource definition": kindAndList("IDCMachineTemplate"),
	"InfraMachineTemplate: support for SSA dry run":                      dryRunsAreLetThrough,
	"InfraMachine: pausing":                                              machineIsPaused,
	"Multi tenancy":                                                      watchFilterIsObeyed,
}

// otherRules are tested elsewhere, or say nothing that could be.
var otherRules = map[string]string{
	"InfraCluster: terminal failures":                             "nothing is made for a cluster, so nothing can fail",
	"InfraMachine: support for in-place changes":                  "no field of an IDCMachine can be changed in place",
	"Clusterctl support":                                          "TestMove has clusterctl's own client move hosts and machines; the lab shows the rest",
	"InfraMachineTemplate: support cluster autoscaling from zero": "a template says what a host must have, not what it has",
}

func TestContractsOfInfrastructure(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "rack-a" })
	infra := &infrav1.IDCCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "blue", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}}}
	infra.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(get[clusterv1.Cluster](s, "blue"), clusterv1.GroupVersion.WithKind("Cluster"))}
	s.create(infra)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.eventually("the cluster is provisioned", func() bool {
		return ptr.Deref(get[infrav1.IDCCluster](s, "blue").Status.Initialization.Provisioned, false)
	})
	for rule, test := range contractRules {
		t.Run(rule, func(t *testing.T) {
			inner := *s
			inner.t = t
			test(t, &inner)
		})
	}
	t.Run("every rule of this version of Cluster API has a test", func(t *testing.T) {
		contract.EveryRuleIsTested(t, []string{"infra-cluster.md", "infra-machine.md"}, maps.Keys(contractRules), maps.Keys(otherRules))
	})
}

// definitions are the CustomResourceDefinitions as they are released.
func definitions(t *testing.T) contract.Definitions {
	t.Helper()
	return contract.Read(t, "../../config/infrastructure/crd")
}

func allNamespaced(t *testing.T, _ *site) { definitions(t).Namespaced(t) }

func allHaveMetadata(t *testing.T, _ *site) { definitions(t).HaveMetadata(t) }

func allSayTheirContract(t *testing.T, _ *site) {
	definitions(t).SayTheirContract(t, infrav1.GroupVersion.Group)
	for _, definition := range definitions(t) {
		if _, moves := definition.Labels[clusterctlv1.ClusterctlMoveLabel]; moves != (definition.Spec.Names.Kind == "IDCHost") {
			t.Errorf("%s is moved without an owner: %t", definition.Name, moves)
		}
	}
}

func kindAndList(kind string) func(*testing.T, *site) {
	return func(t *testing.T, _ *site) {
		definitions(t).Define(t, infrav1.GroupVersion.WithKind(kind), environment.Scheme)
	}
}

// The control plane provider gives the endpoint; what a person writes surfaces and is left alone.
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

func raw(s *site, kind, name string) map[string]any {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
	if err := environment.Client.Get(s.t.Context(), s.key(name), object); err != nil {
		s.t.Fatal(err)
	}
	return object.Object
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

func mirrored(t *testing.T, s *site, kind, name string) {
	t.Helper()
	ready, err := conditions.UnstructuredGet(&unstructured.Unstructured{Object: raw(s, kind, name)}, clusterv1.ReadyCondition)
	if err != nil || ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason == "" {
		t.Errorf("Cluster API reads Ready as %v, %v", ready, err)
	}
}

func clusterIsReady(t *testing.T, s *site) { mirrored(t, s, "IDCCluster", "blue") }
func machineIsReady(t *testing.T, s *site) { mirrored(t, s, "IDCMachine", "worker-1") }

func externallyManagedIsLeftAlone(t *testing.T, s *site) {
	infra := &infrav1.IDCCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "external", Annotations: map[string]string{clusterv1.ManagedByAnnotation: "a person"}}}
	infra.OwnerReferences = get[infrav1.IDCCluster](s, "blue").OwnerReferences
	s.create(infra)
	r := &ClusterReconciler{Client: environment.Client}
	if _, err := r.Reconcile(t.Context(), requestFor(infra)); err != nil {
		t.Fatal(err)
	}
	if got := get[infrav1.IDCCluster](s, "external").Status; got.Initialization.Provisioned != nil || len(got.Conditions) > 0 {
		t.Errorf("its status is %+v", got)
	}
}

func clusterIsPaused(t *testing.T, s *site) {
	edit(s, "blue", func(c *infrav1.IDCCluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	says(s, &infrav1.IDCCluster{}, "blue", clusterv1.PausedCondition, clusterv1.PausedReason)
	edit(s, "blue", func(c *infrav1.IDCCluster) { c.Annotations = nil })
	says(s, &infrav1.IDCCluster{}, "blue", clusterv1.PausedCondition, clusterv1.NotPausedReason)
}

func machineIsPaused(t *testing.T, s *site) {
	edit(s, "worker-1", func(m *infrav1.IDCMachine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	says(s, &infrav1.IDCMachine{}, "worker-1", clusterv1.PausedCondition, clusterv1.PausedReason)
	edit(s, "worker-1", func(m *infrav1.IDCMachine) { m.Annotations = nil })
	says(s, &infrav1.IDCMachine{}, "worker-1", clusterv1.PausedCondition, clusterv1.NotPausedReason)
}

func providerIDNamesTheHost(t *testing.T, s *site) {
	value, _, err := unstructured.NestedString(raw(s, "IDCMachine", "worker-1"), "spec", "providerID")
	if want := "idc://" + s.namespace + "/host-1/" + s.getMachine("worker-1").Spec.InstanceID; err != nil || value != want {
		t.Errorf("Cluster API reads %q, %v, not %q", value, err, want)
	}
}

func failureDomainIsObeyed(t *testing.T, s *site) {
	value, _, err := unstructured.NestedString(raw(s, "IDCMachine", "worker-1"), "status", "failureDomain")
	if err != nil || value != "rack-a" {
		t.Errorf("Cluster API reads %q, %v", value, err)
	}
	other := newSite(t)
	other.manager(nil)
	for _, rack := range []string{"a", "b", "c"} {
		other.host("host-"+rack, func(h *infrav1.IDCHost) { h.Spec.FailureDomain = rack })
	}
	other.machine("worker-1", func(_ *infrav1.IDCMachine, owner *clusterv1.Machine) { owner.Spec.FailureDomain = "b" })
	other.ready("worker-1")
	if got := other.getMachine("worker-1"); got.Spec.HostRef.Name != "host-b" || got.Status.FailureDomain != "b" {
		t.Errorf("it is on %s", got.Spec.HostRef.Name)
	}
}

func addressesAreListed(t *testing.T, s *site) {
	want := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "worker-1"}, {Type: clusterv1.MachineInternalIP, Address: "192.0.2.7"}, {Type: clusterv1.MachineInternalIP, Address: "198.51.100.7"}}
	if got := s.getMachine("worker-1").Status.Addresses; !slices.Equal(got, want) {
		t.Errorf("they are %v", got)
	}
}

func machineIsProvisioned(t *testing.T, s *site) {
	value, found, err := unstructured.NestedBool(raw(s, "IDCMachine", "worker-1"), "status", "initialization", "provisioned")
	if err != nil || !found || !value {
		t.Errorf("Cluster API reads %t, %v", value, err)
	}
}

// Terminal failures are conditions with a reason of their own, and end when their cause does.
func failuresAreConditions(t *testing.T, _ *site) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", nil)
	s.fleet.edit("host-1", func(h *machineHost) { h.fails = &hosts.Progress{State: hosts.Failed, Detail: "cloud-init failed"} })
	s.machine("worker-1", nil)
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.BootstrapFailedReason)
	s.fleet.edit("host-1", func(h *machineHost) { h.fails = nil })
	edit(s, "worker-1", func(secret *corev1.Secret) { secret.Data["value"] = []byte("#cloud-config\n# other\n") })
	edit(s, "worker-1", func(m *infrav1.IDCMachine) { m.Annotations = map[string]string{"look": "again"} })
	s.ready("worker-1")
}

func dryRunsAreLetThrough(t *testing.T, s *site) {
	template := &infrav1.IDCMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "workers", Annotations: map[string]string{clusterv1.TopologyDryRunAnnotation: ""}}}
	template.Spec.Template.Spec = &infrav1.HostRequirements{}
	s.create(template)
	template.Spec.Template.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}
	if err := environment.Client.Update(t.Context(), template.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := environment.Client.Update(t.Context(), template.DeepCopy()); err == nil || !strings.Contains(err.Error(), "is immutable") {
		t.Errorf("a change that is no dry run: %v", err)
	}
}

func watchFilterIsObeyed(t *testing.T, _ *site) {
	s := newSite(t)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	p := s.program(&mortal{writesLeft: 0})
	p.machines.WatchFilterValue, p.hosts.WatchFilterValue = "mine", "mine"
	clusters := &ClusterReconciler{Client: p.machines.Client, WatchFilterValue: "mine"}
	infra := &infrav1.IDCCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "blue"}}
	infra.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(get[clusterv1.Cluster](s, "blue"), clusterv1.GroupVersion.WithKind("Cluster"))}
	s.create(infra)
	for range 3 {
		for _, err := range []error{
			second(p.hosts.Reconcile(t.Context(), requestFor(s.getHost("host-1")))),
			second(p.machines.Reconcile(t.Context(), requestFor(s.getMachine("worker-1")))),
			second(clusters.Reconcile(t.Context(), requestFor(infra))),
		} {
			if err != nil {
				t.Errorf("another manager's object is written to: %v", err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
