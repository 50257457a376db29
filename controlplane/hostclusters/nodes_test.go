package hostclusters

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestACordonIsToldAsAChangeOfTheMembersThere(t *testing.T) {
	pod := func(name, component, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{names.ComponentLabel: component}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	node := func(cordoned bool) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host"}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
	}
	held := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, cordon.PodsByNode, cordon.NodeOf).WithObjects(
		pod("member", names.EtcdData, "host"), pod("api", names.KubeAPIServer, "host"), pod("elsewhere", names.EtcdData, "other"),
	).Build()
	var told []string
	handler := onCordons(t.Context(), held, func(_ context.Context, object client.Object) { told = append(told, object.GetName()) })
	handler.OnAdd(node(true), true)
	handler.OnUpdate(node(true), node(true))
	handler.OnDelete(node(true))
	if len(told) > 0 {
		t.Errorf("without a cordon it tells of %v", told)
	}
	handler.OnUpdate(node(false), node(true))
	handler.OnUpdate(node(true), node(false))
	if !slices.Equal(told, []string{"member", "member"}) {
		t.Errorf("it tells of %v", told)
	}
}
