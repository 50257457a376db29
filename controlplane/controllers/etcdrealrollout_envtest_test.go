//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// The pods here count as ready from their first moment: what holds the next step back is etcd's own word.
func TestMembersOfARealEtcdAreReplacedUnderWrites(t *testing.T) {
	t.Parallel()
	e := newRealEtcd(t)
	e.revision = "first"
	e.reach(3)
	e.write()
	first := e.starts[statustest.PodName(names.EtcdData, 0)]
	// The last member would go first, if it did not lead.
	leader := statustest.PodName(names.EtcdData, 2)
	e.letLead(leader)

	e.revision = "second"
	set := &appsv1.StatefulSet{ObjectMeta: e.meta("blue-etcd-data", names.EtcdData)}
	set.Spec.Replicas, set.Spec.UpdateStrategy.Type = ptr.To[int32](3), appsv1.OnDeleteStatefulSetStrategyType
	set.Status.UpdateRevision = e.revision
	e.create(set)
	var replaced []string
	// back are members that followed a leader since they were replaced. elected is true when a busy machine had the members elect another
	// leader before the operator asked for one.
	back, elected := map[string]bool{}, false
	check := e.reconciler.etcd.Check
	e.reconciler.etcd.Check = func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
		health, err := check(ctx, members, config)
		if err != nil {
			return nil, err
		}
		for _, m := range health.Members {
			back[m.Name] = back[m.Name] || m.Answered && m.Follows
			elected = elected || m.Leader && m.Name != leader && len(replaced) < 2
		}
		return health, nil
	}
	change := e.reconciler.etcd.Change
	e.reconciler.etcd.Change = func(ctx context.Context, kind membership.Kind, name string, health *etcd.Health, members map[string]etcd.Address, config *tls.Config) error {
		if updated := e.updated(); len(updated) < 2 {
			t.Errorf("%s of %s when %v alone were replaced: the leader is to go last", kind, name, updated)
		}
		return change(ctx, kind, name, health, members, config)
	}
	err := wait.PollUntilContextTimeout(t.Context(), scaleRound, scalePatience, true, func(ctx context.Context) (bool, error) {
		report := e.round(ctx)
		for _, name := range e.updated() {
			if slices.Contains(replaced, name) {
				continue
			}
			for _, former := range replaced {
				if !back[former] {
					t.Errorf("%s was replaced before %s followed a leader again", name, former)
				}
			}
			replaced = append(replaced, name)
			delete(back, name)
		}
		return len(replaced) == 3 && len(report.Problems()) == 0 && report.Rollout == "", nil
	})
	if err != nil {
		t.Fatalf("%v; replaced are %v", err, replaced)
	}
	if !elected && replaced[2] != leader {
		t.Errorf("they were replaced in the order %v, and %s led", replaced, leader)
	}
	if got := e.starts[statustest.PodName(names.EtcdData, 0)]; got != first+1 {
		t.Errorf("the first member was started %d times, want one more than %d", got, first)
	}
	e.expectNothingLost()
}

// letLead cordons the nodes of all other members until that one leads.
func (e *realEtcd) letLead(member string) {
	e.t.Helper()
	for other := range e.members {
		if other != member {
			e.cordon(e.nodeOf(other), true)
			defer e.cordon(e.nodeOf(other), false)
		}
	}
	e.await(member+" leads", func(ctx context.Context) bool { return leaderOf(e.round(ctx)) == member })
}

// leads waits until all is well, and tells who leads.
func (e *realEtcd) leads() string {
	e.t.Helper()
	leader := ""
	e.await("a member leads", func(ctx context.Context) bool {
		report := e.round(ctx)
		leader = leaderOf(report)
		return leader != "" && len(report.Problems()) == 0
	})
	return leader
}

func leaderOf(health *operator.Report) string {
	for _, m := range health.Members {
		if m.Leader {
			return m.Name
		}
	}
	return ""
}

// updated are the members whose pods have the last revision.
func (e *realEtcd) updated() []string {
	e.t.Helper()
	pods := &corev1.PodList{}
	if err := e.host.List(e.t.Context(), pods); err != nil {
		e.t.Fatal(err)
	}
	var updated []string
	for _, pod := range pods.Items {
		if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == e.revision {
			updated = append(updated, pod.Name)
		}
	}
	return updated
}
