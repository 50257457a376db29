package status

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

const (
	joining = controlplanev1.EtcdMemberJoining
	learner = controlplanev1.EtcdMemberLearner
	voter   = controlplanev1.EtcdMemberVoter
)

func TestAChangeOfMembersIsToldWithWhatItWaitsFor(t *testing.T) {
	notUp := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingUpReason}
	notDown := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingDownReason}
	says := func(reason, message string) expectation {
		return expectation{status: metav1.ConditionTrue, reason: reason, says: []string{message}}
	}
	for name, test := range map[string]struct {
		desired  int32
		states   []controlplanev1.EtcdMemberState
		waits    string
		up, down expectation
	}{
		"none is under way":      {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter}, up: notUp, down: notDown},
		"nothing was listed yet": {desired: 3, up: notUp, down: notDown},
		"more members are wanted": {desired: 3, states: []controlplanev1.EtcdMemberState{voter}, waits: "there are 2 host nodes",
			up: says(clusterv1.ScalingUpReason, "etcd-data: 1 of 3 members vote: there are 2 host nodes"), down: notDown},
		"a member joins": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, joining},
			up: says(clusterv1.ScalingUpReason, "etcd-data: 1 of 3 members vote"), down: notDown},
		"a member learns": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, learner},
			up: says(clusterv1.ScalingUpReason, "etcd-data: 1 of 3 members vote"), down: notDown},
		"a member was promoted a moment ago": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter},
			up: says(clusterv1.ScalingUpReason, "etcd-data: 2 of 3 members vote"), down: notDown},
		"fewer members are wanted": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter, voter, voter}, waits: "an API server uses it",
			up: notUp, down: says(clusterv1.ScalingDownReason, "etcd-data: 5 members exist, 3 are wanted: an API server uses it")},
		"a learner is wanted no more": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter, learner},
			up: notUp, down: says(clusterv1.ScalingDownReason, "etcd-data: 4 members exist, 3 are wanted")},
		"something is left of one that was removed": {desired: 1, states: []controlplanev1.EtcdMemberState{voter}, waits: "pod blue-etcd-data-1 is stopping",
			up: notUp, down: says(clusterv1.ScalingDownReason, "etcd-data: pod blue-etcd-data-1 is stopping")},
	} {
		t.Run(name, func(t *testing.T) {
			in, seen := settledInput(), settled()
			in.ControlPlane.Spec.Etcd.Data.Replicas = &test.desired
			cluster := controlplanev1.EtcdClusterStatus{Name: "data", Bootstrapped: ptr.To(true)}
			for i, state := range test.states {
				cluster.Members = append(cluster.Members, controlplanev1.EtcdMemberStatus{Name: statustest.PodName(names.EtcdData, int32(i)), State: state})
			}
			in.ControlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{cluster}
			seen.Etcd[names.EtcdData].Change = test.waits
			expect(t, scalingUp(in, seen), test.up)
			expect(t, scalingDown(in, seen), test.down)
		})
	}
}

func TestMembersStayInStatusWhileEtcdDoesNotTellThem(t *testing.T) {
	before := []controlplanev1.EtcdMemberStatus{{Name: "blue-etcd-data-0", State: voter}}
	for what, health := range map[string]*etcd.Health{
		"there is no report":      nil,
		"it does not answer":      {Err: errors.New("refused")},
		"it was not observed yet": {Err: ErrNotObserved},
	} {
		if got := listedMembers(health, before); !slices.Equal(got, before) {
			t.Errorf("%s: %v", what, got)
		}
	}
	got := listedMembers(&etcd.Health{Members: []etcd.Member{
		{Name: "a", Listed: true, Started: true}, {Name: "b", Listed: true, Started: true, Learner: true}, {Name: "c", Listed: true, Learner: true}, {Name: "d"},
	}}, before)
	want := []controlplanev1.EtcdMemberStatus{{Name: "a", State: voter}, {Name: "b", State: learner}, {Name: "c", State: joining}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEtcdThatWasNotObservedYetIsNeitherHealthyNorUnhealthy(t *testing.T) {
	seen := settled()
	seen.Etcd[names.EtcdEvents] = &operator.Report{Health: &etcd.Health{Err: ErrNotObserved}}
	got := etcdClusterHealthy(settledInput(), seen)
	if got.Status != metav1.ConditionUnknown || got.Message != "etcd-events was not observed yet" {
		t.Errorf("got %s: %s", got.Status, got.Message)
	}
	if joined(seen.Health(names.EtcdEvents)) {
		t.Error("members joined that nobody has heard of")
	}
}

func TestRollingOutSaysWhichMemberIsWaitedFor(t *testing.T) {
	seen := settled()
	seen.Workloads[names.EtcdData].Updated = 1
	seen.Etcd[names.EtcdData].Rollout = "member blue-etcd-data-1 is not ready"
	seen.Etcd[names.EtcdEvents].Rollout = "nothing that matters"
	if got, want := rollingOut(seen).Message, "etcd-data: 1 of 3 pods are up to date: member blue-etcd-data-1 is not ready"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
