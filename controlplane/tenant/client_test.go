package tenant

import (
	"testing"

	"k8s.io/client-go/rest"
)

// One of its own would be most of what a settled tenant takes of the manager's memory.
func TestClientsOfAllTenantsShareOneMapper(t *testing.T) {
	first, err := NewClient(&rest.Config{Host: "https://192.0.2.1:6443"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewClient(&rest.Config{Host: "https://192.0.2.2:6443"})
	if err != nil {
		t.Fatal(err)
	}
	if first.RESTMapper() != second.RESTMapper() {
		t.Error("each has its own")
	}
}
