package templates

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

const (
	class    = "clusterclass-kok.yaml"
	topology = "cluster-template-topology.yaml"
)

// The rules are those of Cluster API's "clusterctl provider contract", ClusterClass definitions.
func TestTheClassIsAsClusterctlWantsIt(t *testing.T) {
	for _, file := range []string{class, chainedClass} {
		if strings.Contains(read(t, file), "${") {
			t.Errorf("%s has variables of clusterctl: those of a class take their place", file)
		}
		objects := render(t, file)
		name := one[*clusterv1.ClusterClass](t, objects).Name
		if file != "clusterclass-"+name+".yaml" {
			t.Errorf("clusterctl does not find the class %s in %s", name, file)
		}
		for _, object := range objects {
			if object.GetNamespace() != "" {
				t.Errorf("%T of %s has the namespace %s", object, file, object.GetNamespace())
			}
			if object.GetName() != name && object.GetName() != name+"-worker" {
				t.Errorf("%T of %s is named %s: another class could have it too", object, file, object.GetName())
			}
		}
	}
}

func TestTheTemplatesOfTheClassAreThere(t *testing.T) {
	objects := render(t, class)
	spec := one[*clusterv1.ClusterClass](t, objects).Spec
	worker := spec.Workers.MachineDeployments[0]
	for reference, object := range map[clusterv1.ClusterClassTemplateReference]client.Object{
		spec.ControlPlane.TemplateRef:     one[*controlplanev1.KOKControlPlaneTemplate](t, objects),
		spec.Infrastructure.TemplateRef:   one[*infrav1.IDCClusterTemplate](t, objects),
		worker.Bootstrap.TemplateRef:      one[*bootstrapv1.KOKConfigTemplate](t, objects),
		worker.Infrastructure.TemplateRef: one[*infrav1.IDCMachineTemplate](t, objects),
	} {
		version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		if reference.APIVersion != version || reference.Kind != kind || reference.Name != object.GetName() {
			t.Errorf("%+v does not lead to %s %s", reference, kind, object.GetName())
		}
	}
}

func TestEveryVariableIsExplainedAndUsed(t *testing.T) {
	spec := one[*clusterv1.ClusterClass](t, render(t, class)).Spec
	var used []string
	for _, patch := range spec.Patches {
		if patch.Description == "" {
			t.Errorf("patch %s has no description", patch.Name)
		}
		for _, definition := range patch.Definitions {
			for _, operation := range definition.JSONPatches {
				if operation.ValueFrom != nil {
					used = append(used, operation.ValueFrom.Variable)
				}
			}
		}
	}
	for _, variable := range spec.Variables {
		schema := variable.Schema.OpenAPIV3Schema
		if schema.Description == "" || schema.Example == nil {
			t.Errorf("%s has no description or no example", variable.Name)
		}
		if !slices.Contains(used, variable.Name) {
			t.Errorf("%s is not used", variable.Name)
		}
	}
	for _, name := range used {
		if !slices.ContainsFunc(spec.Variables, func(v clusterv1.ClusterClassVariable) bool { return v.Name == name }) {
			t.Errorf("%s is used, and no variable", name)
		}
	}
}
