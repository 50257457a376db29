//go:build envtest

package controllers

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

var machineKinds = []string{"IDCMachine", "IDCMachineTemplate", "IDCHost"}

// machineRules has one test for each rule of Cluster API's contract for infrastructure machines, by the name that the
// contract gives it.
var machineRules = map[string]func(*testing.T, *site){
	"All resources: scope":                                               allNamespaced(machineKinds...),
	"All resources: `TypeMeta` and `ObjectMeta`field":                    allHaveMetadata(machineKinds...),
	"All resources: `APIVersion` field value":                            allSayTheirContract(machineKinds...),
	"InfraMachine, InfraMachineList resource definition":                 kindAndList("IDCMachine"),
	"InfraMachine: provider ID":                                          providerIDNamesTheHost,
	"InfraMachine: failure domain":                                       failureDomainIsObeyed,
	"InfraMachine: addresses":                                            addressesAreListed,
	"InfraMachine: initialization completed":                             machineIsProvisioned,
	"InfraMachine: conditions":                                           machineIsReady,
	"InfraMachine: terminal failures":                                    failuresAreConditions,
	"InfraMachineTemplate, InfraMachineTemplateList resource definition": kindAndList("IDCMachineTemplate"),
	"InfraMachineTemplate: support for SSA dry run":                      dryRunsAreLetThrough,
	"Multi tenancy":                                                      multiTenancy,
	"Clusterctl support":                                                 clusterctlIsSupported,
	"InfraMachine: pausing":                                              machineIsPaused,
}

func TestInfraMachineContract(t *testing.T) { testContract(t, rules.InfraMachine(), machineRules) }

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

func machineIsReady(t *testing.T, s *site) { mirrored(t, s, "IDCMachine", "worker-1") }

func failuresAreConditions(t *testing.T, _ *site) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", nil)
	s.fleet.edit("host-1", func(h *machineHost) {
		h.fails = &bootstrap.Progress{State: bootstrap.Failed, Detail: "cloud-init failed"}
	})
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

func machineIsPaused(_ *testing.T, s *site) {
	leftAloneWhilePaused(s, "worker-1", s.program(&mortal{writesLeft: 0}).machines,
		func(m *infrav1.IDCMachine) { m.Status.Addresses = nil },
		func(m *infrav1.IDCMachine) bool { return len(m.Status.Addresses) > 0 })
}
