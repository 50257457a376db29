// Package statustest has a settled control plane, Cluster blue in namespace team, as tests of its status and of its
// controller begin with it. Each call makes a new one, which a test may change.
package statustest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// Cluster is the Cluster of the control plane.
var Cluster = client.ObjectKey{Namespace: "team", Name: "blue"}

// sizes are the numbers of pods, by component.
var sizes = map[string]int32{
	names.EtcdData: 3, names.EtcdEvents: 3, names.KubeAPIServer: 3, names.KubeControllerManager: 2, names.KubeScheduler: 2,
}

// ControlPlane is the control plane after its tenant's API answered.
func ControlPlane() *controlplanev1.KOKControlPlane {
	c := &controlplanev1.KOKControlPlane{}
	c.Spec.Etcd.Data.Replicas, c.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	return c
}

// WithEveryCondition has a control plane ask for all that has a condition of its own only where it is asked for.
func WithEveryCondition(spec *controlplanev1.KOKControlPlaneSpec) {
	spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{}
	spec.KeyRotation.Kinds = []controlplanev1.KeyKind{controlplanev1.ServiceAccountKeyKind}
}

// Workloads are those of all components, by component.
func Workloads() map[string]*workloads.State {
	all := map[string]*workloads.State{}
	for component, size := range sizes {
		needed := int32(1)
		if slices.Contains(etcdcomponent.Components(), component) {
			needed = 2
		}
		all[component] = &workloads.State{Observed: true, Desired: size, Current: size, Updated: size, Ready: size, Available: size, Needed: needed}
	}
	return all
}

// Pods are those of all components, by component. They are on the host nodes n0, n1 and n2.
func Pods() map[string][]corev1.Pod {
	all := map[string][]corev1.Pod{}
	for component, size := range sizes {
		for i := range size {
			all[component] = append(all[component], ReadyPod(component, i))
		}
	}
	return all
}

// Etcd is what the operator reports of both clusters, by component.
func Etcd() map[string]*operator.Report {
	all := map[string]*operator.Report{}
	for _, component := range etcdcomponent.Components() {
		health := &etcd.Health{}
		for i := range sizes[component] {
			health.Members = append(health.Members, etcd.Member{Name: PodName(component, i), Listed: true, Leader: i == 0})
		}
		all[component] = &operator.Report{Health: health}
	}
	return all
}

// PodName is the name of a pod, and of a member of etcd.
func PodName(component string, i int32) string {
	return fmt.Sprintf("%s-%s-%d", Cluster.Name, component, i)
}

// ReadyPod is a pod that is ready.
func ReadyPod(component string, i int32) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: PodName(component, i), Labels: map[string]string{names.VersionLabel: "v1.36.3"}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i)},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// Outcomes are those of a reconcile in which every step is done.
func Outcomes() []flow.Outcome {
	var all []flow.Outcome
	for _, step := range []string{
		names.StepKeyMaterial, names.StepVersion, names.StepPorts, names.StepEndpoint, names.StepCertificates, names.StepKubeconfig, names.EtcdData, names.EtcdEvents,
		names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler, names.StepTenantObjects, names.StepAddons,
	} {
		all = append(all, flow.Outcome{Name: step, Ran: true})
	}
	return all
}

// End makes a step end otherwise, and those after it not run.
func End(outcomes []flow.Outcome, step string, result flow.Result) {
	found := false
	for i := range outcomes {
		switch {
		case outcomes[i].Name == step:
			outcomes[i].Result, found = result, true
		case found:
			outcomes[i].Ran = false
		}
	}
}
