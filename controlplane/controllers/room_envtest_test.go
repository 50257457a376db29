//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestAnAutoscalerThatWantsMoreThanThereAreHostNodesIsToldSo(t *testing.T) {
	hosts := map[string]string{controlplanev1.HostNodeLabel: "true", "room": "three"}
	for i := range 3 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("room-%d", i), Labels: hosts}}
		if err := environment.Client.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		// Other tests count host nodes too.
		t.Cleanup(func() {
			if err := environment.Client.Delete(context.Background(), node); err != nil {
				t.Error(err)
			}
		})
	}
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		single(c)
		asWorkload(controlplanev1.APIServerDeployment)(c)
		c.Spec.Hosting.NodeSelector = hosts
	})
	tt.host.broken = func(pod *corev1.Pod) bool {
		return slices.Contains([]string{"blue-kube-apiserver-3", "blue-kube-apiserver-4"}, pod.Name)
	}
	scale := func(replicas int32) {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Replicas = ptr.To(replicas) })
		tt.settle()
	}
	expectReconciled := func(when string) {
		if got := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); got.Status != metav1.ConditionTrue {
			t.Errorf("%s it says %s", when, got.Message)
		}
	}
	tt.settle()
	expectReconciled("with two API servers")
	scale(3)
	expectReconciled("with three API servers")

	scale(5)
	got := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition)
	if got.Status != metav1.ConditionFalse || !strings.HasPrefix(got.Message, "spec.replicas is 5, on the host network each replica needs a host node of its own, and there are 3") {
		t.Errorf("with five it says %v", got)
	}
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Error("it is not available")
	}
	t.Run("and everything else goes on", func(t *testing.T) {
		scheduler := &appsv1.Deployment{}
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-"+names.KubeScheduler), scheduler); err != nil {
			t.Fatal(err)
		}
		tt.delete(scheduler)
		tt.settle()
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-"+names.KubeScheduler), &appsv1.Deployment{}); err != nil {
			t.Error(err)
		}
	})

	scale(3)
	expectReconciled("when the number was set back")
}
