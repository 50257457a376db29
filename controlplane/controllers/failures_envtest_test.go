//go:build envtest

package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// failedCreate is the event of a controller that cannot create a pod.
func failedCreate(workload client.Object, message string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: workload.GetNamespace(), GenerateName: workload.GetName() + "."},
		InvolvedObject: corev1.ObjectReference{Namespace: workload.GetNamespace(), Name: workload.GetName(), UID: workload.GetUID()},
		Reason:         "FailedCreate", Message: message, Type: corev1.EventTypeWarning,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
	}
}

// Where no pod comes into being there is no pod to ask why: each kind of workload says it elsewhere.
func TestItIsSaidWhyPodsAreNotCreated(t *testing.T) {
	for component, say := range map[string]func(t *testing.T, tt *tenantTest){
		names.EtcdData: func(t *testing.T, tt *tenantTest) {
			set := &appsv1.StatefulSet{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data"), set); err != nil {
				t.Fatal(err)
			}
			for i, message := range []string{"an older reason", "pods is forbidden: exceeded quota"} {
				if err := environment.Client.Create(t.Context(), failedCreate(set, message, time.Now().Add(time.Duration(i)*time.Second))); err != nil {
					t.Fatal(err)
				}
			}
		},
		names.KubeAPIServer: func(t *testing.T, tt *tenantTest) {
			set := &appsv1.DaemonSet{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-apiserver"), set); err != nil {
				t.Fatal(err)
			}
			set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, DesiredNumberScheduled: 3}
			if err := environment.Client.Status().Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			if err := environment.Client.Create(t.Context(), failedCreate(set, "pods is forbidden: exceeded quota", time.Now())); err != nil {
				t.Fatal(err)
			}
		},
		names.KubeScheduler: func(t *testing.T, tt *tenantTest) {
			d := &appsv1.Deployment{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-scheduler"), d); err != nil {
				t.Fatal(err)
			}
			d.Status.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "it is not available"},
				{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "pods is forbidden: exceeded quota"},
			}
			if err := environment.Client.Status().Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(component, func(t *testing.T) {
			began := time.Now()
			tt := newTenantTest(t, single)
			tt.host.stopped[component] = true
			tt.settle()
			say(t, tt)
			tt.program.Clock = clocktesting.NewFakeClock(began) // The workload is a moment old, however slow this machine is.
			if message := tt.reasons(); strings.Contains(message, "quota") {
				t.Errorf("a workload that is a moment old is not asked, and it says %s", message)
			}
			tt.program.Clock = clocktesting.NewFakeClock(time.Now().Add(time.Minute))
			if message := tt.reasons(); !strings.Contains(message, component+": pods is forbidden: exceeded quota") || strings.Contains(message, "an older reason") {
				t.Errorf("it says %s", message)
			}
		})
	}
}

// reasons are the messages of the conditions of health after one reconcile.
func (tt *tenantTest) reasons() string {
	tt.t.Helper()
	if err := tt.reconcile(); err != nil {
		tt.t.Fatal(err)
	}
	var messages []string
	for _, condition := range tt.controlPlane().Status.Conditions {
		if slices.Contains([]string{conditionsv1.AvailableCondition, conditionsv1.EtcdClusterHealthyCondition, conditionsv1.ControlPlaneComponentsHealthyCondition}, condition.Type) {
			messages = append(messages, condition.Message)
		}
	}
	return strings.Join(messages, "\n")
}

func TestAHostNodeThatIsNotHeardFromIsSaidToBe(t *testing.T) {
	tt := newTenantTest(t, single)
	tt.settle()
	pod := &corev1.Pod{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-scheduler-0"), pod); err != nil {
		t.Fatal(err)
	}
	// What the host cluster's node lifecycle controller does once it hears nothing.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	if err := environment.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Client.Delete(context.Background(), node); err != nil {
			t.Error(err)
		}
	})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if err := environment.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := environment.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	edit := &appsv1.Deployment{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-scheduler"), edit); err != nil {
		t.Fatal(err)
	}
	edit.Status.ReadyReplicas, edit.Status.AvailableReplicas = 0, 0
	if err := environment.Client.Status().Update(t.Context(), edit); err != nil {
		t.Fatal(err)
	}
	message := tt.reasons()
	if !conditions.IsUnknown(tt.controlPlane(), conditionsv1.AvailableCondition) || !strings.Contains(message, "does not hear from "+node.Name) {
		t.Errorf("it says %s", message)
	}
}
