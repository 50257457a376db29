package lab

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestCollectedSecretsHaveNoValues(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"name": "key",
			"annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"tls.key":"c2VjcmV0"}}`,
				"kept": "yes",
			},
		},
		"data": map[string]any{"tls.key": "c2VjcmV0"},
	}}
	data, err := yaml.Marshal(presentable(secret).Object)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	if strings.Contains(got, "c2VjcmV0") {
		t.Errorf("the value is in what is collected:\n%s", got)
	}
	for _, want := range []string{"tls.key: <6 bytes>", "kept:"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in what is collected:\n%s", want, got)
		}
	}
}
