package templates

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// definitions are those of the templates that patches of the class change.
var definitions = map[string]string{
	"KOKControlPlaneTemplate": "../config/controlplane/crd/bases/controlplane.cluster.x-k8s.io_kokcontrolplanetemplates.yaml",
	"KOKConfigTemplate":       "../config/bootstrap/crd/bases/bootstrap.cluster.x-k8s.io_kokconfigtemplates.yaml",
}

// A value that the variable takes is one that the field takes, and a person learns of a wrong one where it is written.
func TestObjectsAndListsHaveTheSchemaOfTheirField(t *testing.T) {
	spec, compared := one[*clusterv1.ClusterClass](t, render(t, class)).Spec, 0
	for _, patch := range spec.Patches {
		for _, definition := range patch.Definitions {
			file, ok := definitions[definition.Selector.Kind]
			if !ok {
				continue
			}
			for _, operation := range definition.JSONPatches {
				if operation.ValueFrom == nil {
					continue
				}
				i := slices.IndexFunc(spec.Variables, func(v clusterv1.ClusterClassVariable) bool { return v.Name == operation.ValueFrom.Variable })
				schema := spec.Variables[i].Schema.OpenAPIV3Schema
				if schema.Properties == nil && schema.Items == nil {
					continue
				}
				// The field may be empty, and the variable unset instead, or the other way round.
				schema.MinItems, schema.MinProperties, schema.Example = nil, nil, nil
				want := fieldSchema(t, file, operation.Path)
				want.MinItems, want.MinProperties = nil, nil
				compareSchemas(t, operation.ValueFrom.Variable, comparableSchema(t, schema), comparableSchema(t, want))
				compared++
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d were compared", compared)
	}
}

// fieldSchema is the schema of a field of a definition.
func fieldSchema(t *testing.T, file, path string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(read(t, file)), &crd); err != nil {
		t.Fatal(err)
	}
	schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		next, ok := schema.Properties[name]
		if !ok {
			t.Fatalf("%s has no %s", path, name)
		}
		schema = next
	}
	return schema
}

// comparableSchema is a schema as a map. How lists are merged is no matter of variables; and Cluster API has no x-kubernetes-int-or-string
// with a pattern.
func comparableSchema(t *testing.T, schema any) map[string]any {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	strip(found)
	return found
}

func strip(schema map[string]any) {
	for _, key := range []string{"description", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "anyOf"} {
		delete(schema, key)
	}
	if required, ok := schema["required"].([]any); ok {
		slices.SortFunc(required, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	}
	if schema["x-kubernetes-int-or-string"] != nil {
		delete(schema, "pattern")
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			strip(inner)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, inner := range properties {
		strip(inner.(map[string]any))
	}
}

// compareSchemas says where two differ. Claims of resources belong to pods, which a control plane does not give them.
func compareSchemas(t *testing.T, at string, got, want map[string]any) {
	t.Helper()
	keys := maps.Clone(got)
	maps.Copy(keys, want)
	for key := range keys {
		gotInner, isObject := got[key].(map[string]any)
		wantInner, both := want[key].(map[string]any)
		switch {
		case isObject && both:
			compareSchemas(t, at+"."+key, gotInner, wantInner)
		case strings.HasSuffix(at, "Resources.properties") && key == "claims":
		case strings.HasSuffix(at, ".limits") || strings.HasSuffix(at, ".requests"):
		case !reflect.DeepEqual(got[key], want[key]):
			t.Errorf("%s.%s is %v, that of the field %v", at, key, got[key], want[key])
		}
	}
}
