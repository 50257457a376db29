package capi

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// render fills a flavour in as the specs do and decodes it; fields that no API knows are errors.
func render(t *testing.T, flavour string) []runtime.Object {
	t.Helper()
	files, err := Flavours("../../templates", "templates")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(files[FileOf(flavour)], func(name string) (string, error) {
		value, ok := map[string]string{
			"CLUSTER_NAME": "blue", "NAMESPACE": "team", "KUBERNETES_VERSION": "v1.36.3",
			"CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "1",
		}[name]
		if !ok {
			return "", fmt.Errorf("%s is not set", name)
		}
		return value, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	types := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme)
	if err := builder.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for document := range strings.SplitSeq(string(filled), "\n---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// one is the only object of a type.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects %T, want one", len(found), *new(T))
	}
	return found[0]
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
