package capi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
)

// render fills a flavour in as the specs do and decodes it.
func render(t *testing.T, flavour string) []client.Object {
	t.Helper()
	files, err := Flavours("../../templates", "templates")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := manifests.Fill(files[FileOf(flavour)], map[string]string{
		"CLUSTER_NAME": "blue", "NAMESPACE": "team", "KUBERNETES_VERSION": "v1.36.3",
		"CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifests.Decode(filled)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// one is the only object of a type.
func one[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	found, err := manifests.One[T](objects)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheRemediationFlavourReplacesEveryWorkerThatATestCallsUnhealthy(t *testing.T) {
	objects := render(t, RemediationFlavour)
	check, workers := one[*clusterv1.MachineHealthCheck](t, objects), one[*clusterv1.MachineDeployment](t, objects)
	if len(check.Spec.Checks.UnhealthyNodeConditions) != 1 || check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo != nil {
		t.Errorf("%+v", check.Spec)
	}
	condition := check.Spec.Checks.UnhealthyNodeConditions[0]
	if condition.Type != "e2e.remediation.condition" || condition.Status != corev1.ConditionFalse || ptr.Deref(condition.TimeoutSeconds, 600) > 60 {
		t.Errorf("%+v", condition)
	}
	// Cluster API gives Machines this label of their MachineDeployment.
	if got := check.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel]; got != workers.Name || check.Spec.ClusterName != workers.Spec.ClusterName {
		t.Errorf("the check is of %q, the workers are %q", got, workers.Name)
	}
}

func TestTheReplicasFlavourIsOfTheClassAndCountsAPIServers(t *testing.T) {
	topology := one[*clusterv1.Cluster](t, render(t, ReplicasFlavour)).Spec.Topology
	usual := one[*clusterv1.Cluster](t, render(t, "topology")).Spec.Topology
	if topology.ClassRef.Name != usual.ClassRef.Name || ptr.Deref(topology.ControlPlane.Replicas, 0) != 1 {
		t.Errorf("%+v", topology)
	}
	if len(topology.Workers.MachineDeployments) != 1 || topology.Workers.MachineDeployments[0].Class != usual.Workers.MachineDeployments[0].Class {
		t.Errorf("%+v", topology.Workers)
	}
	for _, variable := range topology.Variables {
		if variable.Name == "apiServerWorkload" && string(variable.Value.Raw) == `"Deployment"` {
			return
		}
	}
	t.Errorf("%+v", topology.Variables)
}
