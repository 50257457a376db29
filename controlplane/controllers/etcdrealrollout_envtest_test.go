//go:build envtest

package controllers

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

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
	leader := leaderOf(e.round(t.Context()))

	e.revision = "second"
	set := &appsv1.StatefulSet{ObjectMeta: e.meta("blue-etcd-data", names.EtcdData)}
	set.Spec.Replicas, set.Spec.UpdateStrategy.Type = ptr.To[int32](3), appsv1.OnDeleteStatefulSetStrategyType
	set.Status.UpdateRevision = e.revision
	e.create(set)
	var replaced []string
	err := wait.PollUntilContextTimeout(t.Context(), scaleRound, scalePatience, true, func(ctx context.Context) (bool, error) {
		health := e.round(ctx)
		for _, name := range e.updated() {
			if !slices.Contains(replaced, name) {
				replaced = append(replaced, name)
			}
		}
		answering := 0
		for _, m := range health.Members {
			if m.Answered && m.Follows {
				answering++
			}
		}
		if answering < 2 {
			t.Errorf("%d members have a leader: %v", answering, health.Problems())
		}
		return len(replaced) == 3 && answering == 3 && health.Rollout == "", nil
	})
	if err != nil {
		t.Fatalf("%v; replaced are %v", err, replaced)
	}
	if len(replaced) != 3 || replaced[2] != leader {
		t.Errorf("they were replaced in the order %v, and %s led", replaced, leader)
	}
	if got := e.starts[statustest.PodName(names.EtcdData, 0)]; got != first+1 {
		t.Errorf("the first member was started %d times, want one more than %d", got, first)
	}
	e.expectNothingLost()
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
