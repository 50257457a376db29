// Package contract tests what all contracts of Cluster API ask of a provider's CustomResourceDefinitions, and
// that no rule of a contract goes without a test.
package contract

import (
	"iter"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

// Definitions are the CustomResourceDefinitions of a provider, as they are released.
type Definitions []*apiextensionsv1.CustomResourceDefinition

// Read builds the definitions from a folder with a kustomization.
func Read(t *testing.T, folder string) Definitions {
	t.Helper()
	var all Definitions
	for _, resource := range build(t, folder).Resources() {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict([]byte(resource.MustYaml()), definition); err != nil {
			t.Fatal(err)
		}
		all = append(all, definition)
	}
	if len(all) < 2 {
		t.Fatalf("%d definitions are released", len(all))
	}
	return all
}

func build(t *testing.T, folder string) resmap.ResMap {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return resources
}

// Of are the definitions of some kinds.
func (d Definitions) Of(t *testing.T, kinds ...string) Definitions {
	t.Helper()
	var some Definitions
	for _, definition := range d {
		if slices.Contains(kinds, definition.Spec.Names.Kind) {
			some = append(some, definition)
		}
	}
	if len(some) != len(kinds) {
		t.Fatalf("of %v, %d are released", kinds, len(some))
	}
	return some
}

// Namespaced is the rule "All resources: scope".
func (d Definitions) Namespaced(t *testing.T) {
	for _, definition := range d {
		if definition.Spec.Scope != apiextensionsv1.NamespaceScoped {
			t.Errorf("%s has scope %s", definition.Name, definition.Spec.Scope)
		}
	}
}

// HaveMetadata is the rule "All resources: `TypeMeta` and `ObjectMeta`field".
func (d Definitions) HaveMetadata(t *testing.T) {
	for _, definition := range d {
		for _, version := range definition.Spec.Versions {
			properties := version.Schema.OpenAPIV3Schema.Properties
			for name, kind := range map[string]string{"apiVersion": "string", "kind": "string", "metadata": "object"} {
				if properties[name].Type != kind {
					t.Errorf("%s %s: %s is of type %q", definition.Name, version.Name, name, properties[name].Type)
				}
			}
		}
	}
}

// SayTheirContract is the rule "All resources: `APIVersion` field value". The group is one that Cluster API's core
// has rights to.
func (d Definitions) SayTheirContract(t *testing.T, group string) {
	for _, definition := range d {
		if definition.Spec.Group != group {
			t.Errorf("%s is of group %s: Cluster API's core has no rights to it", definition.Name, definition.Spec.Group)
		}
		version := definition.Labels[clusterv1.GroupVersion.Group+"/"+clusterv1.GroupVersion.Version]
		if !slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version && v.Served && v.Storage
		}) {
			t.Errorf("%s names %q as the version that follows the contract", definition.Name, version)
		}
	}
}

// Define is the rule of a kind's "resource definition": its names, and those of its list, in Go too.
func (d Definitions) Define(t *testing.T, kind schema.GroupVersionKind, types *runtime.Scheme) {
	for _, definition := range d {
		if definition.Spec.Names.Kind != kind.Kind {
			continue
		}
		if want := contract.CalculateCRDName(kind.Group, kind.Kind); definition.Name != want {
			t.Errorf("it is named %s, not %s", definition.Name, want)
		}
		if definition.Spec.Names.ListKind != kind.Kind+"List" || !slices.Contains(definition.Spec.Names.Categories, "cluster-api") {
			t.Errorf("its names are %+v", definition.Spec.Names)
		}
		for _, name := range []string{kind.Kind, kind.Kind + "List"} {
			if !types.Recognizes(kind.GroupVersion().WithKind(name)) {
				t.Errorf("there is no Go type %s", name)
			}
		}
		return
	}
	t.Errorf("no definition has kind %s", kind.Kind)
}

// EveryRuleIsTested fails for each rule of a contract that is not among the tested and has no reason for it, and for each of the
// tested that is no rule or has such a reason.
func EveryRuleIsTested(t *testing.T, contract rules.Contract, tested iter.Seq[string]) {
	t.Helper()
	if t.Name() != contract.Test() {
		t.Errorf("this test has to be named %s", contract.Test())
	}
	found, err := contract.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := sets.New[string]()
	for _, rule := range found {
		if _, untested := contract.Untested[rule.Name]; !untested {
			want.Insert(rule.Name)
		}
	}
	have := sets.New(slices.Collect(tested)...)
	for _, rule := range sets.List(want.Difference(have)) {
		t.Errorf("nothing tests %q", rule)
	}
	for _, rule := range sets.List(have.Difference(want)) {
		t.Errorf("%q is no rule of this contract that is tested", rule)
	}
}
