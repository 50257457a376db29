//go:build envtest

package controllers

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// A control plane that is made goes through many stages, most of which change a message and nothing else.
func TestMessagesAloneAreWrittenOnceInAWhile(t *testing.T) {
	tt := newTenantTest(t, small)
	tt.settle()
	scheduler := &appsv1.Deployment{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace(names.Object(tt.cluster.Name, names.KubeScheduler)), scheduler); err != nil {
		t.Fatal(err)
	}
	scheduler.Status.ReadyReplicas, scheduler.Status.AvailableReplicas = 0, 0
	if err := environment.Client.Status().Update(t.Context(), scheduler); err != nil {
		t.Fatal(err)
	}
	// waits has a pod wait for this reason, and reconciles.
	waits := func(reason string) (writes []request, again time.Duration) {
		t.Helper()
		pods := &corev1.PodList{}
		if err := environment.Client.List(t.Context(), pods, client.InNamespace(tt.key.Namespace),
			client.MatchingLabels(names.ComponentLabels(tt.cluster, names.KubeScheduler))); err != nil || len(pods.Items) != 1 {
			t.Fatalf("%d pods: %v", len(pods.Items), err)
		}
		pod := &pods.Items[0]
		before := pod.DeepCopy()
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}
		if err := environment.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		tt.program.gate.take()
		result, err := tt.program.Reconcile(t.Context(), ctrl.Request{NamespacedName: tt.key})
		if err != nil {
			t.Fatal(err)
		}
		return tt.program.gate.takeWrites(), result.RequeueAfter
	}
	says := func() string {
		return conditions.GetMessage(tt.controlPlane(), conditionsv1.ControlPlaneComponentsHealthyCondition)
	}

	tt.program.StatusWrites.MessagesEvery = time.Hour
	if writes, _ := waits("Started"); len(writes) == 0 || !strings.Contains(says(), "Started") {
		t.Fatalf("a condition turned, and %q was written: %q", writes, says())
	}
	if writes, again := waits("Stopped"); len(writes) > 0 || again <= 0 || again > time.Hour || strings.Contains(says(), "Stopped") {
		t.Errorf("a message changed, and %q was written: %q; the next reconcile is after %v", writes, says(), again)
	}
	tt.program.StatusWrites.MessagesEvery = time.Nanosecond
	if writes, _ := waits("Stopped"); len(writes) == 0 || !strings.Contains(says(), "Stopped") {
		t.Errorf("it is time, and %q was written: %q", writes, says())
	}
	tt.program.StatusWrites.MessagesEvery = time.Hour
	if writes, again := waits("Stopped"); len(writes) > 0 || again < 5*time.Second {
		t.Errorf("nothing changed, and %q was written; the next reconcile is after %v", writes, again)
	}
}
