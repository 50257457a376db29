package controllers

import (
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// changingScope is a scope whose etcd with the data has members in these states, and shall have a number.
func changingScope(t *testing.T, desired int32, states ...controlplanev1.EtcdMemberState) *scope {
	t.Helper()
	s := askable(t)
	s.controlPlane.Spec.Etcd.Data.Replicas, s.controlPlane.Spec.Etcd.Events.Replicas = &desired, ptr.To[int32](3)
	s.input.Spec.Etcd.Data.Replicas = &desired
	status := controlplanev1.EtcdClusterStatus{Name: "data", Bootstrapped: ptr.To(true)}
	for i, state := range states {
		status.Members = append(status.Members, controlplanev1.EtcdMemberStatus{Name: podName(names.EtcdData, int32(i)), State: state})
	}
	s.controlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{status}
	return s
}

const (
	joining = controlplanev1.EtcdMemberJoining
	learner = controlplanev1.EtcdMemberLearner
	voter   = controlplanev1.EtcdMemberVoter
)

func TestAChangeOfMembers(t *testing.T) {
	notUp := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingUpReason}
	notDown := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingDownReason}
	says := func(reason, message string) expectation {
		return expectation{status: metav1.ConditionTrue, reason: reason, says: []string{message}}
	}
	for name, test := range map[string]struct {
		desired  int32
		states   []controlplanev1.EtcdMemberState
		waits    string
		pods     int32
		needed   int32
		joins    string
		growing  bool
		up, down expectation
	}{
		"none is under way":      {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter}, pods: 3, needed: 2, up: notUp, down: notDown},
		"nothing was listed yet": {desired: 3, pods: 3, needed: 2, growing: true, up: notUp, down: notDown},
		"more members are wanted": {desired: 3, states: []controlplanev1.EtcdMemberState{voter}, pods: 1, needed: 1, growing: true, waits: "there are 2 host nodes",
			up: says(clusterv1.ScalingUpReason, "etcd-data: 1 of 3 members vote: there are 2 host nodes"), down: notDown},
		"a member joins": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, joining}, pods: 2, needed: 1, growing: true, joins: "blue-etcd-data-1",
			up: says(clusterv1.ScalingUpReason, "etcd-data: 1 of 3 members vote"), down: notDown},
		"a member learns": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, learner}, pods: 2, needed: 1, growing: true,
			up: says(clusterv1.ScalingUpReason, "etcd-data: 1 of 3 members vote"), down: notDown},
		"a member was promoted a moment ago": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter}, pods: 2, needed: 1, growing: true,
			up: says(clusterv1.ScalingUpReason, "etcd-data: 2 of 3 members vote"), down: notDown},
		"fewer members are wanted": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter, voter, voter}, pods: 5, needed: 3, waits: "an API server uses it",
			up: notUp, down: says(clusterv1.ScalingDownReason, "etcd-data: 5 members exist, 3 are wanted: an API server uses it")},
		"a learner is wanted no more": {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter, learner}, pods: 4, needed: 2,
			up: notUp, down: says(clusterv1.ScalingDownReason, "etcd-data: 4 members exist, 3 are wanted")},
		"something is left of one that was removed": {desired: 1, states: []controlplanev1.EtcdMemberState{voter}, pods: 1, needed: 1, waits: "pod blue-etcd-data-1 is stopping",
			up: notUp, down: says(clusterv1.ScalingDownReason, "etcd-data: 1 members exist, 1 are wanted: pod blue-etcd-data-1 is stopping")},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := changingScope(t, test.desired, test.states...), settled()
			seen.etcd[names.EtcdData].Change = test.waits
			if got := etcdPods(s, etcdcomponent.Data); got != test.pods {
				t.Errorf("it has %d pods, want %d", got, test.pods)
			}
			if got := s.stateOf(names.EtcdData, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.pods}}).needed; got != test.needed {
				t.Errorf("it needs %d pods, want %d", got, test.needed)
			}
			if got := membershipOf(s.controlPlane, names.EtcdData); got.Joining != test.joins || !got.Bootstrapped || len(got.Listed) != len(test.states) {
				t.Errorf("its files are for %+v", got)
			}
			if got := s.growing(); (got == names.EtcdData) != test.growing {
				t.Errorf("it grows: %q", got)
			}
			expect(t, scalingUp(s, seen), test.up)
			expect(t, scalingDown(s, seen), test.down)
		})
	}
}

func TestMembersStayInStatusWhileEtcdDoesNotTellThem(t *testing.T) {
	before := []controlplanev1.EtcdMemberStatus{{Name: "blue-etcd-data-0", State: voter}}
	for what, health := range map[string]*etcd.Health{
		"there is no report":      nil,
		"it does not answer":      {Err: errors.New("refused")},
		"it was not observed yet": {Err: errNotObserved},
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
