package etcdmembers

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
)

func TestNoMemberMayBeEvictedWhereNoneCanBeSpared(t *testing.T) {
	in := askable().Input
	objects := etcdcomponent.Data.DisruptionBudget(in, 2)
	spareNone(objects)
	if budget := objects[0].(*policyv1.PodDisruptionBudget); budget.Spec.MaxUnavailable.IntValue() != 0 || budget.Spec.MaxUnavailable.String() != "0" {
		t.Errorf("%s may be evicted at once", budget.Spec.MaxUnavailable)
	}
}
