package controllers

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

var errRefused = errors.New("connection refused")

// settled is what is observed of a control plane of which all is well.
func settled() *status.Observation {
	seen := &status.Observation{Workloads: map[string]*workloads.State{}, Pods: map[string][]corev1.Pod{}, Etcd: map[string]*operator.Report{}}
	for component, size := range map[string]int32{
		names.EtcdData: 3, names.EtcdEvents: 3, names.KubeAPIServer: 3, names.KubeControllerManager: 2, names.KubeScheduler: 2,
	} {
		needed := int32(1)
		if slices.Contains(etcdclusters.Components, component) {
			needed = 2
			health := &etcd.Health{}
			for i := range size {
				health.Members = append(health.Members, etcd.Member{Name: podName(component, i), Listed: true, Leader: i == 0})
			}
			seen.Etcd[component] = &operator.Report{Health: health}
		}
		seen.Workloads[component] = &workloads.State{Observed: true, Desired: size, Current: size, Updated: size, Ready: size, Available: size, Needed: needed}
		for i := range size {
			seen.Pods[component] = append(seen.Pods[component], readyPod(component, i))
		}
	}
	return seen
}

func podName(component string, i int32) string { return fmt.Sprintf("blue-%s-%d", component, i) }

func readyPod(component string, i int32) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(component, i), Labels: map[string]string{names.VersionLabel: "v1.36.3"}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i)},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// initializedScope is a reconcile in which every step is done.
func initializedScope() *scope {
	s := &scope{
		key: client.ObjectKey{Namespace: "team", Name: "blue"}, host: &Host{Own: true},
		controlPlane: &controlplanev1.KOKControlPlane{},
	}
	s.controlPlane.Spec.Etcd.Data.Replicas, s.controlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	s.controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	for _, step := range []string{
		names.StepKeyMaterial, names.StepVersion, names.StepPorts, names.StepEndpoint, names.StepCertificates, names.StepKubeconfig, names.EtcdData, names.EtcdEvents,
		names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler, names.StepTenantObjects, names.StepAddons,
	} {
		s.outcomes = append(s.outcomes, flow.Outcome{Name: step, Ran: true})
	}
	return s
}

// end makes a step end otherwise, and those after it not run.
func (s *scope) end(step string, result flow.Result) {
	found := false
	for i := range s.outcomes {
		switch {
		case s.outcomes[i].Name == step:
			s.outcomes[i].Result, found = result, true
		case found:
			s.outcomes[i].Ran = false
		}
	}
}

// uninitialized takes back that the tenant's API ever answered.
func (s *scope) uninitialized() { s.controlPlane.Status.Initialization.ControlPlaneInitialized = nil }

// unready makes a pod not ready.
func unready(seen *status.Observation, component string, i int32) *corev1.Pod {
	pod := &seen.Pods[component][i]
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	return pod
}
