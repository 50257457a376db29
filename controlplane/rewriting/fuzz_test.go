package rewriting

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Tenants name their objects and their resources, and etcd has the names in its keys.
func FuzzKeysOfEtcd(f *testing.F) {
	f.Add("/registry/secrets/default/a")
	f.Add("/registry/example.org/widgets/b")
	f.Add("///")
	kinds := []kind{
		{corev1.SchemeGroupVersion.WithResource("secrets"), "Secret", true}, {corev1.SchemeGroupVersion.WithResource("nodes"), "Node", false},
		{schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, "Widget", false},
	}
	f.Fuzz(func(t *testing.T, key string) {
		if resource := resourceOf(key); resource == "" || len(resource) > maxResource || strings.ContainsAny(resource, "/ \n(") {
			t.Errorf("%q is of %q", key, resource)
		}
		for _, k := range kinds {
			namespace, name, found := k.object(key)
			if found && (!mayHold(k.Group, key) || strings.ContainsAny(namespace+name, "/ \n%") || !strings.HasSuffix(key, "/"+name)) {
				t.Errorf("%q is taken for %s %q of namespace %q", key, k.name, name, namespace)
			}
		}
	})
}
