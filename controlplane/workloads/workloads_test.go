package workloads

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
)

func TestStateOfWorkloads(t *testing.T) {
	meta := metav1.ObjectMeta{Generation: 3}
	for name, test := range map[string]struct {
		object client.Object
		want   *State
	}{
		"a StatefulSet needs a quorum": {
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5)},
				Status: appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 1}},
			&State{Observed: true, Desired: 5, Current: 4, Updated: 2, Ready: 3, Available: 1, Needed: 3},
		},
		"a StatefulSet of one needs it": {
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)}},
			&State{Desired: 1, Needed: 1},
		},
		"a DaemonSet needs one pod": {
			&appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{
				ObservedGeneration: 2, DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, UpdatedNumberScheduled: 1, NumberReady: 3, NumberAvailable: 2}},
			&State{Desired: 5, Current: 4, Updated: 1, Ready: 3, Available: 2, Needed: 1},
		},
		"a Deployment needs one pod": {
			&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
				Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 1}},
			&State{Observed: true, Desired: 2, Current: 4, Updated: 2, Ready: 3, Available: 1, Needed: 1},
		},
		"another object is no workload": {&corev1.ConfigMap{}, nil},
	} {
		got := StateOf(test.object)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatAWorkloadIsGoodFor(t *testing.T) {
	for name, test := range map[string]struct {
		state           *State
		works, complete bool
		waiting         string
		// upgrading is what it waits for in an upgrade, when that is more.
		upgrading string
	}{
		"none": {state: nil},
		"all pods are ready and up to date": {
			state: &State{Observed: true, Desired: 3, Current: 3, Updated: 3, Ready: 3, Available: 3, Needed: 2}, works: true, complete: true},
		"all pods are ready, and one has not been so for long enough": {
			state: &State{Observed: true, Desired: 3, Current: 3, Updated: 3, Ready: 3, Available: 2, Needed: 2}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 3 pods 3 are up to date, 2 available, and 3 exist"},
		"enough pods are ready": {
			state: &State{Observed: true, Desired: 3, Current: 3, Updated: 3, Ready: 2, Available: 2, Needed: 2}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 3 pods 3 are up to date, 2 available, and 3 exist"},
		"not enough pods are ready": {
			state:   &State{Observed: true, Desired: 3, Current: 3, Updated: 3, Ready: 1, Available: 1, Needed: 2},
			waiting: "etcd-data has 1 of 3 pods ready and needs 2"},
		"no pod exists yet": {
			state: &State{Desired: 3, Needed: 2}, waiting: "etcd-data has 0 of 3 pods ready and needs 2"},
		"its spec changed just now": {
			state: &State{Desired: 3, Current: 3, Updated: 3, Ready: 3, Available: 3, Needed: 2}, works: true,
			waiting: "etcd-data rolls out: 3 of 3 pods are up to date"},
		"pods are replaced one after the other": {
			state: &State{Observed: true, Desired: 3, Current: 3, Updated: 1, Ready: 2, Available: 2, Needed: 2}, works: true,
			waiting: "etcd-data rolls out: 1 of 3 pods are up to date"},
		"one pod too many": {
			state: &State{Observed: true, Desired: 2, Current: 3, Updated: 3, Ready: 3, Available: 3, Needed: 1}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 2 pods 3 are up to date, 3 available, and 3 exist"},
		"one pod is missing and the others are up to date": {
			state: &State{Observed: true, Desired: 3, Current: 2, Updated: 2, Ready: 2, Available: 2, Needed: 2}, works: true,
			upgrading: "others are upgraded when etcd-data is: of 3 pods 2 are up to date, 2 available, and 2 exist"},
		"no node matches": {
			state:   &State{Observed: true, Needed: 1},
			waiting: "no node of the host cluster matches spec.hosting.nodeSelector and portPool, so etcd-data runs nowhere; label host nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.state.Works(); got != test.works {
				t.Errorf("works: %t", got)
			}
			if got := test.state.Complete(); got != test.complete {
				t.Errorf("complete: %t", got)
			}
			if test.state == nil {
				return
			}
			if got := test.state.Waiting("etcd-data", false); got != test.waiting {
				t.Errorf("waits: %q", got)
			}
			if got := test.state.Waiting("etcd-data", true); got != cmp.Or(test.upgrading, test.waiting) {
				t.Errorf("in an upgrade it waits: %q", got)
			}
		})
	}
}

func TestEveryComponentHasItsWorkloadKind(t *testing.T) {
	kinds := Kinds(&controlplanev1.KOKControlPlane{})
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, slices.Sorted(slices.Values(registry.Components.Names()))) {
		t.Errorf("got %v", got)
	}
}
