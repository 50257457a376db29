package controllers

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

func TestWhatElseIsWrongIsSaidBesidesReplicas(t *testing.T) {
	s, seen := initializedScope(), settled()
	s.host.Live = fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}).Build()
	s.input.Spec.KubeScheduler.Replicas = ptr.To[int32](2)
	seen.Workloads[names.KubeScheduler].Ready--
	seen.Workloads[names.KubeScheduler].Available--
	s.problem = errors.New("spec.version: v1.20 is not supported")
	if err := s.noteRoom(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	status.Set(s.statusInput(), seen)
	said := conditions.Get(s.controlPlane, conditionsv1.ReconciledCondition)
	_, after, _ := strings.Cut(said.Message, "v1.20 is not supported")
	if said.Status != metav1.ConditionFalse || said.Reason != conditionsv1.ReconcileFailedReason || !strings.Contains(after, "spec.kubeScheduler.replicas is 2") {
		t.Errorf("it says %v", said)
	}
}

// Steps run at the same time: a message in another order would be another status each time.
func TestNotesOfStepsAreToldInOneOrder(t *testing.T) {
	told := func(notes ...string) string {
		s := initializedScope()
		for _, note := range notes {
			s.note(errors.New(note))
		}
		status.Set(s.statusInput(), settled())
		return conditions.GetMessage(s.controlPlane, conditionsv1.ReconciledCondition)
	}
	if first, second := told("etcd-data stays", "etcd-events stays"), told("etcd-events stays", "etcd-data stays"); first != second || !strings.Contains(first, "etcd-data stays") {
		t.Errorf("%q and %q", first, second)
	}
}
