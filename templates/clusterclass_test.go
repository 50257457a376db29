package templates

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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
	content, err := os.ReadFile(class)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("${")) {
		t.Error("it has variables of clusterctl: those of a class take their place")
	}
	objects := render(t, class)
	name := one[*clusterv1.ClusterClass](t, objects).Name
	if class != "clusterclass-"+name+".yaml" {
		t.Errorf("clusterctl does not find the class %s in %s", name, class)
	}
	for _, object := range objects {
		if object.GetNamespace() != "" {
			t.Errorf("%T has the namespace %s", object, object.GetNamespace())
		}
		if !strings.HasPrefix(object.GetName(), name) {
			t.Errorf("%T is named %s: another class could have it too", object, object.GetName())
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

func TestATopologyIsShort(t *testing.T) {
	content, err := os.ReadFile(topology)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(content, []byte("\n")); lines >= 40 {
		t.Errorf("it has %d lines", lines)
	}
}

func TestTheDocumentListsEveryVariableWithItsDefault(t *testing.T) {
	content, err := os.ReadFile("../docs/clusterclass.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range one[*clusterv1.ClusterClass](t, render(t, class)).Spec.Variables {
		row := "\n| `" + variable.Name + "` | "
		if value := variable.Schema.OpenAPIV3Schema.Default; value == nil {
			row += "none"
		} else {
			text, err := yaml.JSONToYAML(value.Raw)
			if err != nil {
				t.Fatal(err)
			}
			row += "`" + strings.TrimSpace(string(text)) + "` |"
		}
		if !strings.Contains(string(content), row) {
			t.Errorf("there is no row %q", row)
		}
	}
}

var variable = regexp.MustCompile(`\$\{[A-Z_]+(:=[^}]*)?\}`)

// Who knows one template knows the other.
func TestVariablesOfATopologyAreThoseOfTheTemplateWithoutOne(t *testing.T) {
	variables := func(file string) []string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return variable.FindAllString(string(content), -1)
	}
	known := variables("cluster-template.yaml")
	found := variables(topology)
	if len(found) < 10 {
		t.Fatalf("only %q were found", found)
	}
	for _, name := range found {
		if !slices.Contains(known, name) {
			t.Errorf("%s is not among %q", name, known)
		}
	}
}

// What a variable has no value for is the class's: a topology without variables is that of the template.
func TestDefaultsOfAClassAreThoseOfItsTopologyTemplate(t *testing.T) {
	defaults := map[string]string{}
	for _, variable := range one[*clusterv1.ClusterClass](t, render(t, class)).Spec.Variables {
		if value := variable.Schema.OpenAPIV3Schema.Default; value != nil {
			defaults[variable.Name] = string(value.Raw)
		}
	}
	for _, variable := range one[*clusterv1.Cluster](t, render(t, topology)).Spec.Topology.Variables {
		if got := string(variable.Value.Raw); got != defaults[variable.Name] {
			t.Errorf("%s is %s, by default of the class %s", variable.Name, got, defaults[variable.Name])
		}
	}
}
