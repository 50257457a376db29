package etcdmembers

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
)

func TestNoMemberMayBeEvictedWhereNoneCanBeSpared(t *testing.T) {
	in := askable().Input
	objects := etcdcomponent.Data.DisruptionBudget(in, 2)
	spareNone(objects)
	if budget := objects[0].(*policyv1.PodDisruptionBudget); budget.Spec.MaxUnavailable.IntValue() != 0 || budget.Spec.MaxUnavailable.String() != "0" {
		t.Errorf("%s may be evicted at once", budget.Spec.MaxUnavailable)
	}
}

// The first member was given up by a restore in place, which the second one began.
func TestTheNumberOfPodsCountsFromTheFirstOne(t *testing.T) {
	restored := metav1.NewTime(time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC))
	for name, test := range map[string]struct {
		change      func(*Members)
		pods, first int32
	}{
		"it never was restored": {change: func(m *Members) { m.ControlPlane.Status.Etcd[0].RestoredAt = metav1.Time{} }, pods: 3, first: 0},
		"it was restored":       {change: func(*Members) {}, pods: 2, first: 1},
		"it is being founded anew": {change: func(m *Members) {
			m.Restore.Record = rebuild.Record{Phase: rebuild.Founding, Seed: "blue-etcd-data-2", ClusterID: "new", Restore: rebuild.Stamp(restored.Time)}
			m.ControlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Restoring: &controlplanev1.EtcdRestoringStatus{}}}
		}, pods: 1, first: 2},
	} {
		t.Run(name, func(t *testing.T) {
			of := askable()
			m := &Members{Adopter: &adoption.Adopter{ControlPlane: of.ControlPlane, Input: of.Input}}
			m.ControlPlane.Spec.Etcd.GivenUp = []string{"blue-etcd-data-0"}
			m.ControlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{{
				Name: "data", Bootstrapped: new(true), RestoredAt: restored, ClusterID: "new", Members: []controlplanev1.EtcdMemberStatus{
					{Name: "blue-etcd-data-1", State: controlplanev1.EtcdMemberVoter}, {Name: "blue-etcd-data-2", State: controlplanev1.EtcdMemberVoter},
				},
			}}
			test.change(m)
			if pods, first := m.podsOf(etcdcomponent.Data); pods != test.pods || first != test.first {
				t.Errorf("%d pods from %d on, want %d from %d on", pods, first, test.pods, test.first)
			}
		})
	}
}
