//go:build envtest

package controllers

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// Nobody but the operator replaces the member whose host node is gone for good, while a writer goes on.
func TestAMemberOfARealEtcdIsReplacedWhenItsHostNodeIsGone(t *testing.T) {
	sample.OneIn(t, 4, "it takes a minute, and the simulated world has the same loss at every commit")
	t.Parallel()
	e := newEtcdThatTells(t)
	leader := e.leads()
	before := e.ids(e.round(t.Context()))
	host := e.nodeOf(leader)
	e.members[leader].kill()
	for _, gone := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}, &corev1.Pod{ObjectMeta: e.meta(leader, names.EtcdData)}} {
		if err := e.host.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	e.awaitReplacement(leader, before)
	if now := e.nodeOf(leader); now == host || now == "" {
		t.Errorf("member %s is on host node %q again", leader, now)
	}
	e.expectNothingLost()
}

// The pod stays, and what prepare saw in it is not true any more: it is made anew, and looks again.
func TestAMemberOfARealEtcdIsReplacedWhenItsVolumeIsEmptied(t *testing.T) {
	sample.OneIn(t, 4, "it takes a minute, and the simulated world has the same loss at every commit")
	t.Parallel()
	e := newEtcdThatTells(t)
	leader := e.leads()
	before := e.ids(e.round(t.Context()))
	e.members[leader].kill()
	if err := os.RemoveAll(filepath.Join(e.directory, leader, "data")); err != nil {
		t.Fatal(err)
	}
	e.awaitReplacement(leader, before)
	e.expectNothingLost()
}

// newEtcdThatTells is an etcd with three members, whose pods say how they are, and a writer.
func newEtcdThatTells(t *testing.T) *realEtcd {
	t.Helper()
	e := newRealEtcd(t)
	e.tells, e.revision = true, "first"
	e.reach(3)
	set := &appsv1.StatefulSet{ObjectMeta: e.meta("blue-etcd-data", names.EtcdData)}
	set.Spec.Replicas, set.Spec.UpdateStrategy.Type = ptr.To[int32](3), appsv1.OnDeleteStatefulSetStrategyType
	set.Status.UpdateRevision = e.revision
	e.create(set)
	e.write()
	return e
}

// awaitReplacement waits until one member, and no other, has another ID, and all is well.
func (e *realEtcd) awaitReplacement(member string, before map[string]uint64) {
	e.t.Helper()
	var after map[string]uint64
	said := ""
	e.await(member+" is replaced", func(ctx context.Context) bool {
		report := e.round(ctx)
		if says := report.Recovery + "; " + report.Change; says != said {
			said = says
			e.t.Log(says, report.Problems())
		}
		after = e.ids(report)
		return after[member] != before[member] && len(after) == len(before) && len(report.Problems()) == 0 && report.Recovery == "" && report.Change == ""
	})
	want := maps.Clone(before)
	want[member] = after[member]
	if !maps.Equal(after, want) {
		e.t.Errorf("the members were %v and are %v", before, after)
	}
}

// ids are the IDs of the members that etcd lists, by name.
func (e *realEtcd) ids(report *operator.Report) map[string]uint64 {
	ids := map[string]uint64{}
	for _, m := range report.Members {
		if m.Listed {
			ids[m.Name] = m.ID
		}
	}
	return ids
}
