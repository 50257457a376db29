package tenantapi

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// API servers take owners of any kind and name, so an ordinary pod may have them.
func TestAPodMayHaveAnyOwner(t *testing.T) {
	for _, owner := range []metav1.OwnerReference{
		{Kind: "ReplicaSet", Name: "web-0123456789"}, {Kind: "ReplicaSet", Name: strings.Repeat("a", 254)}, {Kind: "ClusterRole", Name: "system:node"}, {Kind: "A_b", Name: "web"},
	} {
		owner.Controller = ptr.To(true)
		t.Run(owner.Kind, func(t *testing.T) {
			ways["pods"].expect(t, 1, metav1.ObjectMeta{Namespace: "default", Name: "web", OwnerReferences: []metav1.OwnerReference{owner}}, "")
		})
	}
}
