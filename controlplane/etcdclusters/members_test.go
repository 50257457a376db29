package etcdclusters

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// changing is a control plane whose etcd with the data has members in these states, and shall have a number.
func changing(desired int32, states ...controlplanev1.EtcdMemberState) *controlplanev1.KOKControlPlane {
	controlPlane := &controlplanev1.KOKControlPlane{}
	controlPlane.Spec.Etcd.Data.Replicas, controlPlane.Spec.Etcd.Events.Replicas = &desired, ptr.To[int32](3)
	status := controlplanev1.EtcdClusterStatus{Name: "data", Bootstrapped: ptr.To(true)}
	for i, state := range states {
		status.Members = append(status.Members, controlplanev1.EtcdMemberStatus{Name: fmt.Sprintf("blue-etcd-data-%d", i), State: state})
	}
	controlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{status}
	return controlPlane
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
			controlPlane := changing(test.desired, test.states...)
			in := &components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Spec: controlPlane.Spec}
			if got := Pods(controlPlane, etcdcomponent.Data, in); got != test.pods {
				t.Errorf("it has %d pods, want %d", got, test.pods)
			}
			if got := StateOf(controlPlane, names.EtcdData, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.pods}}).Needed; got != test.needed {
				t.Errorf("it needs %d pods, want %d", got, test.needed)
			}
			if got := Membership(controlPlane, names.EtcdData); got.Joining != test.joins || !got.Bootstrapped || len(got.Listed) != len(test.states) {
				t.Errorf("its files are for %+v", got)
			}
			if got := Growing(controlPlane); (got == names.EtcdData) != test.growing {
				t.Errorf("it grows: %q", got)
			}
		})
	}
}

// With two voters of three none can be spared, though the StatefulSet has two pods while the third is replaced.
func TestWhetherFewerMembersVoteThanTheSpecAsksFor(t *testing.T) {
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
		if got := LackVoters(changing(test.desired, test.states...), names.EtcdData); got != test.lacks {
			t.Errorf("%s: it lacks voters: %t", name, got)
		}
	}
}

// The first member's host node is gone for good, and a restore in place gave the member up.
func TestThePodsOfARestoredEtcdBeginWithTheFirstMemberThatMayRun(t *testing.T) {
	for name, test := range map[string]struct {
		givenUp, listed []string
		want            int32
	}{
		"nobody is given up":                     {listed: []string{"blue-etcd-data-1"}, want: 0},
		"the first one is given up":              {givenUp: []string{"blue-etcd-data-0"}, listed: []string{"blue-etcd-data-1"}, want: 1},
		"another one is given up":                {givenUp: []string{"blue-etcd-data-1"}, listed: []string{"blue-etcd-data-2"}, want: 0},
		"the first one was given up and is back": {givenUp: []string{"blue-etcd-data-0"}, listed: []string{"blue-etcd-data-0", "blue-etcd-data-1"}, want: 0},
		"two are given up":                       {givenUp: []string{"blue-etcd-data-0", "blue-etcd-data-1"}, listed: []string{"blue-etcd-data-2"}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			controlPlane := changing(3)
			controlPlane.Spec.Etcd.GivenUp = test.givenUp
			for _, member := range test.listed {
				controlPlane.Status.Etcd[0].Members = append(controlPlane.Status.Etcd[0].Members, controlplanev1.EtcdMemberStatus{Name: member, State: voter})
			}
			in := &components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Spec: controlPlane.Spec}
			if got := FirstPod(controlPlane, etcdcomponent.Data, in); got != test.want {
				t.Errorf("it is %d, want %d", got, test.want)
			}
		})
	}
}
