package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
)

// The API server checks by itself which components patches name.
func TestPatchesMayNameEveryComponent(t *testing.T) {
	want := registry.Components.Names()
	for _, a := range addons.All {
		want = append(want, a.Name)
	}
	for _, kind := range []string{"kokcontrolplanes", "kokcontrolplanetemplates"} {
		raw, err := os.ReadFile("../../config/controlplane/crd/bases/controlplane.cluster.x-k8s.io_" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			t.Fatal(err)
		}
		spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		if template, ok := spec.Properties["template"]; ok {
			spec = template.Properties["spec"]
		}
		var got []string
		for _, name := range spec.Properties["patches"].Items.Schema.Properties["target"].Properties["component"].Enum {
			got = append(got, strings.Trim(string(name.Raw), `"`))
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("patches of %s may name %v, and there are %v: mend the marker Enum of PatchTarget", kind, got, want)
		}
	}
}

// Rows that no patch is for are not compared with golden files.
func TestTheReferenceHasTheSecretAndTheRevisionsOfEveryComponent(t *testing.T) {
	rows, _ := documented(t)
	for _, component := range registry.Components {
		for kind, name := range map[string]string{
			"Secret": "<cluster>-" + component.Name + "-certs", "ControllerRevision": "<cluster>-" + component.Name + "-<n>",
		} {
			found := false
			for _, row := range rows {
				found = found || row.Kind == kind && row.Name == name
			}
			if !found {
				t.Errorf("docs/reference/objects.md has no %s %s", kind, name)
			}
		}
	}
}

// controller-gen writes a file for each kind, and kustomize installs those that are listed.
func TestEveryDefinitionIsInstalled(t *testing.T) {
	for _, provider := range []string{"controlplane", "bootstrap", "infrastructure"} {
		folder := "../../config/" + provider + "/crd/"
		files, err := filepath.Glob(folder + "bases/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %v: %v", folder, files, err)
		}
		raw, err := os.ReadFile(folder + "kustomization.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Resources []string `json:"resources"`
		}
		if err := yaml.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if name := "bases/" + filepath.Base(file); !slices.Contains(list.Resources, name) {
				t.Errorf("%skustomization.yaml does not list %s: the kind would not be there", folder, name)
			}
		}
	}
}
