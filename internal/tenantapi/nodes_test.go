package tenantapi

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestFinding3ANodeWithALongFieldIsNotKept(t *testing.T) {
	guard := (&Guards{}).Of(blue)
	tenant := fake.NewClientBuilder().WithObjects(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: corev1.NodeSpec{ProviderID: strings.Repeat("a", maxField+1)},
	}).Build()
	err := EachNode(t.Context(), guard, tenant, func(*corev1.Node) { t.Error("it is handed over") })
	if err == nil || guard.Problem() == "" {
		t.Errorf("got %v", err)
	}
}
