package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// changingScope is a scope whose etcd with the data has members in these states, and shall have a number.
func changingScope(t *testing.T, desired int32, states ...controlplanev1.EtcdMemberState) *scope {
	t.Helper()
	s := askable(t)
	s.controlPlane.Spec.Etcd.Data.Replicas, s.controlPlane.Spec.Etcd.Events.Replicas = &desired, ptr.To[int32](3)
	s.input.Spec.Etcd.Data.Replicas = &desired
	status := controlplanev1.EtcdClusterStatus{Name: "data", Bootstrapped: ptr.To(true)}
	for i, state := range states {
		status.Members = append(status.Members, controlplanev1.EtcdMemberStatus{Name: statustest.PodName(names.EtcdData, int32(i)), State: state})
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
	for name, test := range map[string]struct {
		desired int32
		states  []controlplanev1.EtcdMemberState
		pods    int32
		needed  int32
		joins   string
		growing bool
	}{
		"none is under way":                         {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter}, pods: 3, needed: 2},
		"nothing was listed yet":                    {desired: 3, pods: 3, needed: 2, growing: true},
		"more members are wanted":                   {desired: 3, states: []controlplanev1.EtcdMemberState{voter}, pods: 1, needed: 1, growing: true},
		"a member joins":                            {desired: 3, states: []controlplanev1.EtcdMemberState{voter, joining}, pods: 2, needed: 1, growing: true, joins: "blue-etcd-data-1"},
		"a member learns":                           {desired: 3, states: []controlplanev1.EtcdMemberState{voter, learner}, pods: 2, needed: 1, growing: true},
		"a member was promoted a moment ago":        {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter}, pods: 2, needed: 1, growing: true},
		"fewer members are wanted":                  {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter, voter, voter}, pods: 5, needed: 3},
		"a learner is wanted no more":               {desired: 3, states: []controlplanev1.EtcdMemberState{voter, voter, voter, learner}, pods: 4, needed: 2},
		"something is left of one that was removed": {desired: 1, states: []controlplanev1.EtcdMemberState{voter}, pods: 1, needed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := changingScope(t, test.desired, test.states...)
			if got := etcdPods(s, etcdcomponent.Data); got != test.pods {
				t.Errorf("it has %d pods, want %d", got, test.pods)
			}
			if got := s.stateOf(names.EtcdData, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.pods}}).Needed; got != test.needed {
				t.Errorf("it needs %d pods, want %d", got, test.needed)
			}
			if got := etcdclusters.Membership(s.controlPlane, names.EtcdData); got.Joining != test.joins || !got.Bootstrapped || len(got.Listed) != len(test.states) {
				t.Errorf("its files are for %+v", got)
			}
			if got := s.growing(); (got == names.EtcdData) != test.growing {
				t.Errorf("it grows: %q", got)
			}
		})
	}
}

// With two voters of three none can be spared, though the StatefulSet has two pods while the third is replaced.
func TestNoMemberMayBeEvictedWhileFewerVoteThanTheSpecAsksFor(t *testing.T) {
	for name, test := range map[string]struct {
		desired int32
		states  []controlplanev1.EtcdMemberState
		lacks   bool
	}{
		"all vote":                        {3, []controlplanev1.EtcdMemberState{voter, voter, voter}, false},
		"one was removed":                 {3, []controlplanev1.EtcdMemberState{voter, voter}, true},
		"one does not vote yet":           {3, []controlplanev1.EtcdMemberState{voter, learner, voter}, true},
		"fewer are wanted":                {3, []controlplanev1.EtcdMemberState{voter, voter, voter, voter}, false},
		"etcd has not told who votes yet": {3, nil, false},
	} {
		if got := changingScope(t, test.desired, test.states...).lacksVoters(names.EtcdData); got != test.lacks {
			t.Errorf("%s: it lacks voters: %t", name, got)
		}
	}
	in := askable(t).input
	objects := etcdcomponent.Data.DisruptionBudget(&in, 2)
	spareNone(objects)
	if budget := objects[0].(*policyv1.PodDisruptionBudget); budget.Spec.MaxUnavailable.IntValue() != 0 || budget.Spec.MaxUnavailable.String() != "0" {
		t.Errorf("%s may be evicted at once", budget.Spec.MaxUnavailable)
	}
}
