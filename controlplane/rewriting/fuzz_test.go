package rewriting

import (
	"strings"
	"testing"
)

// Tenants name their objects and their resources, and etcd has the names in its keys.
func FuzzKeysOfEtcd(f *testing.F) {
	f.Add("/registry/secrets/default/a")
	f.Add("/registry/example.org/widgets/b")
	f.Add("///")
	f.Fuzz(func(t *testing.T, key string) {
		p := newPass()
		p.add(key)
		if p.total() != 1 {
			t.Errorf("%q is not counted", key)
		}
		for resource := range p.left {
			if resource == "" || len(resource) > maxResource || strings.ContainsAny(resource, "/ \n(") {
				t.Errorf("%q is of %q", key, resource)
			}
		}
	})
}
