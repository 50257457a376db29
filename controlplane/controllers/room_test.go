package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

func TestReplicasThatHaveNoHostNodeAreNamed(t *testing.T) {
	pending := func(component string, desired int32) func(*scope, *status.Observation) {
		return func(s *scope, seen *status.Observation) {
			seen.Workloads[component].Desired, seen.Workloads[component].Current = desired, desired
			switch component {
			case names.KubeAPIServer:
				s.input.Spec.KubeAPIServer.Workload, s.input.APIServerReplicas = controlplanev1.APIServerDeployment, desired
			case names.KubeControllerManager:
				s.input.Spec.KubeControllerManager.Replicas = &desired
			case names.KubeScheduler:
				s.input.Spec.KubeScheduler.Replicas = &desired
			}
		}
	}
	for name, test := range map[string]struct {
		hosts int
		is    []func(*scope, *status.Observation)
		// says are what the messages begin with, one for each.
		says  []string
		reads int
	}{
		"every replica runs": {hosts: 3},
		"an autoscaler wants more API servers": {hosts: 3, is: []func(*scope, *status.Observation){pending(names.KubeAPIServer, 5)},
			says: []string{"spec.replicas is 5, on the host network each replica needs a host node of its own, and there are 3: lower it, or label host nodes; a rollout of kube-apiserver cannot end before"}, reads: 1},
		"the defaults on one host node": {hosts: 1, is: []func(*scope, *status.Observation){pending(names.KubeControllerManager, 2), pending(names.KubeScheduler, 2), func(_ *scope, seen *status.Observation) {
			seen.Workloads[names.KubeControllerManager].Available, seen.Workloads[names.KubeScheduler].Available = 1, 1
		}}, says: []string{"spec.kubeControllerManager.replicas is 2, ", "spec.kubeScheduler.replicas is 2, "}, reads: 1},
		"there are host nodes, and a pod starts": {hosts: 5, is: []func(*scope, *status.Observation){pending(names.KubeAPIServer, 5)}, reads: 1},
		"no host node is labelled":               {is: []func(*scope, *status.Observation){pending(names.KubeAPIServer, 5)}, reads: 1},
		"pods are on the pod network": {hosts: 3, is: []func(*scope, *status.Observation){pending(names.KubeAPIServer, 5), func(s *scope, _ *status.Observation) {
			s.input.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
		}}},
		"kube-apiserver is a DaemonSet": {hosts: 2, is: []func(*scope, *status.Observation){pending(names.KubeAPIServer, 5), func(s *scope, _ *status.Observation) {
			s.input.Spec.KubeAPIServer.Workload = ""
		}}},
		"nothing is made yet": {hosts: 1, is: []func(*scope, *status.Observation){func(_ *scope, seen *status.Observation) { clear(seen.Workloads) }}},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := initializedScope(), settled()
			s.input.Spec.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true"}
			s.input.Spec.KubeControllerManager.Replicas, s.input.Spec.KubeScheduler.Replicas = ptr.To[int32](2), ptr.To[int32](2)
			nodes := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
			for i := range test.hosts {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: s.input.Spec.Hosting.NodeSelector}})
			}
			reads := 0
			s.host.Live = interceptor.NewClient(fake.NewClientBuilder().WithObjects(nodes...).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					reads++
					return c.List(ctx, list, options...)
				},
			})
			for _, do := range test.is {
				do(s, seen)
			}
			for range 2 {
				s.notes = nil
				if err := checkRoom(t.Context(), s, seen); err != nil {
					t.Fatal(err)
				}
			}
			got := s.notes
			if len(got) != len(test.says) || reads != 2*test.reads {
				t.Fatalf("after %d reads it says %q", reads, got)
			}
			for i, says := range test.says {
				if !strings.HasPrefix(got[i], says) {
					t.Errorf("it says %q, want %q", got[i], says)
				}
			}
		})
	}
}

func TestWhatElseIsWrongIsSaidBesidesReplicas(t *testing.T) {
	s, seen := initializedScope(), settled()
	s.host.Live = fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}).Build()
	s.input.Spec.KubeScheduler.Replicas = ptr.To[int32](2)
	seen.Workloads[names.KubeScheduler].Ready--
	seen.Workloads[names.KubeScheduler].Available--
	s.problem = errors.New("spec.version: v1.20 is not supported")
	if err := checkRoom(t.Context(), s, seen); err != nil {
		t.Fatal(err)
	}
	status.Set(s.statusInput(), seen)
	said := conditions.Get(s.controlPlane, controlplanev1.ReconciledCondition)
	_, after, _ := strings.Cut(said.Message, "v1.20 is not supported")
	if said.Status != metav1.ConditionFalse || said.Reason != controlplanev1.ReconcileFailedReason || !strings.Contains(after, "spec.kubeScheduler.replicas is 2") {
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
		return conditions.GetMessage(s.controlPlane, controlplanev1.ReconciledCondition)
	}
	if first, second := told("etcd-data stays", "etcd-events stays"), told("etcd-events stays", "etcd-data stays"); first != second || !strings.Contains(first, "etcd-data stays") {
		t.Errorf("%q and %q", first, second)
	}
}
