package etcdclusters

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestStatusIsReadByComponent(t *testing.T) {
	controlPlane := &controlplanev1.KOKControlPlane{}
	controlPlane.Spec.Etcd.Data.Replicas, controlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](5), ptr.To[int32](3)
	controlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{
		{Name: "events", Bootstrapped: ptr.To(true), Members: []controlplanev1.EtcdMemberStatus{
			{Name: "a", State: controlplanev1.EtcdMemberVoter}, {Name: "b", State: controlplanev1.EtcdMemberLearner}, {Name: "c", State: controlplanev1.EtcdMemberJoining},
		}},
	}
	for component, want := range map[string]struct {
		replicas     int32
		bootstrapped bool
		voters       int32
		joining      string
		listed       []string
	}{
		names.EtcdData:   {replicas: 5},
		names.EtcdEvents: {replicas: 3, bootstrapped: true, voters: 1, joining: "c", listed: []string{"a", "b", "c"}},
	} {
		membership := Membership(controlPlane, component)
		if got := *Spec(controlPlane, component).Replicas; got != want.replicas {
			t.Errorf("%s shall have %d members", component, got)
		}
		if got := Bootstrapped(controlPlane, component); got != want.bootstrapped || membership.Bootstrapped != want.bootstrapped {
			t.Errorf("%s is bootstrapped: %t, %+v", component, got, membership)
		}
		if got := Voters(controlPlane, component); got != want.voters {
			t.Errorf("%s has %d voters", component, got)
		}
		if membership.Joining != want.joining || !slices.Equal(membership.Listed, want.listed) {
			t.Errorf("the files of %s are for %+v", component, membership)
		}
	}
	if Bootstrapped(controlPlane, names.KubeAPIServer) {
		t.Error("kube-apiserver has the members of an etcd cluster")
	}
}
