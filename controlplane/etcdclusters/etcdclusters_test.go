package etcdclusters

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Members know their etcd by the founding that status has. A time of spec that is yet to come, which status does not have, is not among them.
func TestByWhatMembersKnowTheirEtcd(t *testing.T) {
	const first, second = "2026-03-04T05:00:00Z", "2026-03-04T06:00:00Z"
	for name, test := range map[string]struct {
		asked, restoring, restored string
		lost                       bool
		want, latest               string
	}{
		"it was founded once":                 {},
		"it was founded anew":                 {asked: first, restored: first, want: first, latest: first},
		"it was founded anew by itself":       {restored: second, want: second, latest: second},
		"it was so after a person asked":      {asked: first, restored: second, want: second, latest: second},
		"what is left of the former one goes": {restored: first, restoring: second, want: second, latest: second},
		"spec has a time that is yet to come": {asked: second, restored: first, want: first, latest: second},
		"status was lost":                     {asked: first, lost: true, want: first, latest: first},
	} {
		at := func(stamp string) metav1.Time {
			parsed, _ := time.Parse(time.RFC3339, stamp) // The zero time for an empty one.
			return metav1.NewTime(parsed)
		}
		c := &controlplanev1.KOKControlPlane{}
		c.Spec.Etcd.Events.FoundAnewAt = at(test.asked)
		status := controlplanev1.EtcdClusterStatus{Name: "events", RestoredAt: at(test.restored)}
		if test.restoring != "" {
			status.Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: at(test.restoring)}
		}
		if !test.lost {
			SetStatus(c, status)
		}
		if got, want := Founded(c, names.EtcdEvents), FoundedAt(at(test.want)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if got := EventsFoundedAt(c); !got.Time.Equal(at(test.latest).Time) {
			t.Errorf("%s: it is founded at %s", name, got)
		}
		if got := Founded(c, names.EtcdData); got != "" {
			t.Errorf("%s: the data etcd has %q", name, got)
		}
	}
}
