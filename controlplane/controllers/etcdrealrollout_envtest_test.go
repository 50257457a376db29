//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	e.late = true
	// The last member would go first, if it did not lead.
	e.letLead(statustest.PodName(names.EtcdData, 2))

	e.revision = "second"
	set := &appsv1.StatefulSet{ObjectMeta: e.meta("blue-etcd-data", names.EtcdData)}
	set.Spec.Replicas, set.Spec.UpdateStrategy.Type = ptr.To[int32](3), appsv1.OnDeleteStatefulSetStrategyType
	set.Status.UpdateRevision = e.revision
	e.create(set)
	// seen is what the operator saw of etcd when it decided in this round.
	var seen *etcd.Health
	check, change := e.reconciler.etcd.Check, e.reconciler.etcd.Change
	e.reconciler.etcd.Check = func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
		health, err := check(ctx, members, config)
		if seen == nil {
			seen = health
		}
		return health, err
	}
	e.reconciler.etcd.Change = func(ctx context.Context, kind membership.Kind, name string, health *etcd.Health, members map[string]etcd.Address, config *tls.Config) error {
		if updated := e.updated(); len(updated) < 2 {
			t.Errorf("%s of %s when %v alone were replaced: the leader is to go last", kind, name, updated)
		}
		return change(ctx, kind, name, health, members, config)
	}
	err := wait.PollUntilContextTimeout(t.Context(), scaleRound, scalePatience, true, func(ctx context.Context) (bool, error) {
		seen = nil
		report := e.round(ctx)
		for _, member := range e.withoutPod() {
			if seen == nil {
				t.Fatalf("%s was stopped, and no member had been asked", member)
			}
			for _, m := range seen.Members {
				if m.Name == member && m.Leader {
					t.Errorf("%s was stopped while it led", member)
				}
				if m.Name != member && (!m.Answered || !m.Follows) {
					t.Errorf("%s was stopped while %s did not follow a leader", member, m.Name)
				}
			}
		}
		return len(e.updated()) == 3 && len(report.Problems()) == 0 && report.Rollout == "", nil
	})
	if err != nil {
		t.Fatalf("%v; replaced are %v", err, e.updated())
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

// withoutPod are the members whose pods were deleted in this round.
func (e *realEtcd) withoutPod() []string {
	e.t.Helper()
	var without []string
	for member := range e.members {
		err := e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: member}, &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			without = append(without, member)
		} else if err != nil {
			e.t.Fatal(err)
		}
	}
	return without
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
