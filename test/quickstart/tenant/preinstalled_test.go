package tenant

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// find reads the only object of a kind and a name.
func find(t *testing.T, objects []unstructured.Unstructured, name string, into client.Object, kind string) {
	t.Helper()
	for i := range objects {
		if objects[i].GetKind() == kind && objects[i].GetName() == name {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, into, true); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			return
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
}

func TestPreinstalledWorkersAreAGroupOfTheirOwn(t *testing.T) {
	generated := generate(t, "cluster-template.yaml")
	tenant := &Tenant{Key: client.ObjectKey{Namespace: "two", Name: "one"}, Preinstalled: Preinstalled{Count: 3, WithoutLabel: "example.com/bare"}}
	edited, err := tenant.edited(generated)
	if err != nil {
		t.Fatal(err)
	}
	before, err := utilyaml.ToUnstructured(generated)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := utilyaml.ToUnstructured(edited)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != len(before)+len(workerKinds) {
		t.Errorf("there are %d objects, and %d are in the template", len(objects), len(before))
	}
	const name = "one-preinstalled"
	deployment, config, machine, check := &clusterv1.MachineDeployment{}, &bootstrapv1.KOKConfigTemplate{}, &infrav1.IDCMachineTemplate{}, &clusterv1.MachineHealthCheck{}
	find(t, objects, name, deployment, "MachineDeployment")
	find(t, objects, name, config, "KOKConfigTemplate")
	find(t, objects, name, machine, "IDCMachineTemplate")
	find(t, objects, name, check, "MachineHealthCheck")
	if spec := deployment.Spec; *spec.Replicas != 3 || spec.Template.Spec.Bootstrap.ConfigRef.Name != name || spec.Template.Spec.InfrastructureRef.Name != name || spec.ClusterName != "one" {
		t.Errorf("the MachineDeployment is %+v", spec)
	}
	if spec := config.Spec.Template.Spec; spec.Software.Mode != bootstrapv1.SoftwarePreinstalled || len(spec.RegistryMirrors) != 0 {
		t.Errorf("the KOKConfigTemplate is %+v", spec)
	}
	selector := machine.Spec.Template.Spec.HostSelector
	if len(selector.MatchLabels) != 0 || len(selector.MatchExpressions) != 1 || selector.MatchExpressions[0].Key != "example.com/bare" {
		t.Errorf("hosts are chosen by %v", selector)
	}
	if got := check.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel]; got != name {
		t.Errorf("the MachineHealthCheck is for machines of %s", got)
	}
	original := &clusterv1.MachineDeployment{}
	find(t, objects, "one-workers", original, "MachineDeployment")
	if *original.Spec.Replicas != 1 || original.Spec.Template.Spec.Bootstrap.ConfigRef.Name != "one-workers" {
		t.Errorf("the template's own MachineDeployment is %+v", original.Spec)
	}
}

func TestATemplateWithoutWorkersHasNoPreinstalledOnes(t *testing.T) {
	tenant := &Tenant{Key: client.ObjectKey{Namespace: "two", Name: "one"}, Template: "alone.yaml", Preinstalled: Preinstalled{Count: 1}}
	if _, err := tenant.edited(generate(t, "cluster-template-control-plane.yaml")); err == nil || !strings.Contains(err.Error(), "0 objects of workers from alone.yaml") {
		t.Errorf("the error is %v", err)
	}
}
