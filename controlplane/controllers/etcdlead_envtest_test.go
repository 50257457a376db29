//go:build envtest

package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdmembers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Each node is cordoned, drained once nothing leads from there, and uncordoned, as the page on upgrades says.
// etcd itself drops what it is sent in the moment in which the lead moves; the drain then costs no write.
func TestNoWriteFailsWhileNodesAreDrained(t *testing.T) {
	t.Parallel()
	e := newRealEtcd(t)
	e.reach(3)
	e.write()
	const drains = 4
	failures := 0
	for drained, tries := 0, 0; drained < drains; tries++ {
		if tries > 3*drains {
			t.Fatal("the members elect leaders all the time, whom nobody asked for")
		}
		leader, began := e.leads(), time.Now()
		node := e.nodeOf(leader)
		e.cordon(node, true)
		e.await("nothing leads from "+node, func(ctx context.Context) bool {
			now := leaderOf(e.round(ctx))
			return now != "" && now != leader && e.mayBeDrained(leader)
		})
		moved, term := time.Now(), e.term()
		// Etcd may drop a write while the lead moves. Its client waits for seconds, and the drain is not to blame.
		e.await("a write that began after the lead left "+node, func(context.Context) bool { return e.writer.ackedSince(moved) })
		pod := &corev1.Pod{ObjectMeta: e.meta(leader, names.EtcdData)}
		if err := e.host.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		e.cordon(node, false)
		e.await("all is well after "+node, func(ctx context.Context) bool {
			health := e.round(ctx)
			return len(health.Problems()) == 0 && !e.mayBeDrained(leader)
		})
		if e.term() != term {
			continue // A busy machine had the members elect another leader, which fails writes by itself.
		}
		drained++
		failures += len(e.writer.failedSince(began))
		if failed := e.writer.failedSince(moved); len(failed) > 0 {
			t.Errorf("the drain of %s, from where %s did not lead any more, failed %d writes: %v", node, leader, len(failed), failed)
		}
	}
	e.expectNothingLost()
	if failures > drains {
		t.Errorf("%d writes failed while the lead moved %d times: %v", failures, drains, e.writer.failed)
	}
}

// term is the number of the last election that a member knows of.
func (e *realEtcd) term() uint64 {
	e.t.Helper()
	term := uint64(0)
	e.await("a member tells the term", func(ctx context.Context) bool {
		for _, endpoint := range e.writer.client.Endpoints() {
			if status, err := e.writer.client.Status(ctx, endpoint); err == nil {
				term = max(term, status.RaftTerm)
			}
		}
		return term > 0
	})
	return term
}

// ackedSince reports whether a write was acknowledged that began after a moment.
func (w *writer) ackedSince(moment time.Time) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.lastAcked.After(moment)
}

// failedSince are the failed writes that began after a moment.
func (w *writer) failedSince(moment time.Time) []failedWrite {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(w.failed), func(f failedWrite) bool { return f.began.Before(moment) })
}

// cordoned are the members that a reconcile has found on cordoned nodes.
func (e *realEtcd) cordoned(ctx context.Context) []string {
	e.t.Helper()
	pods, err := hostpods.List(ctx, e.host, client.ObjectKey{Namespace: "team", Name: "blue"})
	if err != nil {
		e.t.Fatal(err)
	}
	members, err := etcdmembers.Cordoned(ctx, e.host, pods)
	if err != nil {
		e.t.Fatal(err)
	}
	return members[names.EtcdData]
}

func (e *realEtcd) nodeOf(member string) string {
	e.t.Helper()
	pod := &corev1.Pod{}
	if err := e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: member}, pod); err != nil {
		e.t.Fatal(err)
	}
	return pod.Spec.NodeName
}

func (e *realEtcd) cordon(name string, cordoned bool) {
	e.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.host.Get(e.t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		e.t.Fatal(err)
	}
	node.Spec.Unschedulable = cordoned
	if err := e.host.Update(e.t.Context(), node); err != nil {
		e.t.Fatal(err)
	}
}

// mayBeDrained reports what the pod of a member says of itself.
func (e *realEtcd) mayBeDrained(member string) bool {
	e.t.Helper()
	pod := &corev1.Pod{}
	if err := e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: member}, pod); err != nil {
		e.t.Fatal(err)
	}
	is := hostpods.Condition(pod, controlplanev1.PodReadyToDrain)
	return is != nil && is.Status == corev1.ConditionTrue
}

func (e *realEtcd) await(what string, is func(context.Context) bool) {
	e.t.Helper()
	err := wait.PollUntilContextTimeout(e.t.Context(), scaleRound, scalePatience, true, func(ctx context.Context) (bool, error) { return is(ctx), nil })
	if err != nil {
		e.t.Fatalf("wait until %s: %v", what, err)
	}
}
