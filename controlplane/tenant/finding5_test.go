package tenant

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Finding 5: kube-controller-manager approved, for who holds a bootstrap token, a client certificate for any node's name.
func TestFinding5NobodyApprovesAFirstCertificateUnseen(t *testing.T) {
	objects, err := Objects(settings())
	if err != nil {
		t.Fatal(err)
	}
	renews := false
	for _, object := range objects {
		binding, ok := object.(*rbacv1.ClusterRoleBinding)
		if !ok {
			continue
		}
		switch binding.RoleRef.Name {
		case "system:certificates.k8s.io:certificatesigningrequests:nodeclient":
			t.Errorf("%s has kube-controller-manager approve what a bootstrap token asks for", binding.Name)
		case "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient":
			renews = slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == "system:nodes" })
		}
	}
	if !renews {
		t.Error("nodes do not renew their certificates without the manager")
	}
}
