package controllers

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestRollingOutSaysWhichMemberIsWaitedFor(t *testing.T) {
	seen := settled()
	seen.workloads[names.EtcdData].updated = 1
	seen.etcd[names.EtcdData].Rollout = "member blue-etcd-data-1 is not ready"
	seen.etcd[names.EtcdEvents].Rollout = "nothing that matters"
	if got, want := rollingOut(seen).Message, "etcd-data: 1 of 3 pods are up to date: member blue-etcd-data-1 is not ready"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestAnEtcdWhosePodsAreOutdatedIsOperatedBeforeItsFirstQuorum(t *testing.T) {
	notes := newTaskbook()
	s, seen := askable(t), settled()
	s.controlPlane.Status.Etcd = nil
	seen.workloads[names.EtcdData].ready, seen.workloads[names.EtcdData].updated = 0, 0
	(&Reconciler{etcdOperator: notes}).operateEtcd(s, seen.workloads, nil)
	if notes.tasks[names.EtcdData] == nil {
		t.Error("the operator does not have it, and a bad rendering cannot be taken back")
	}
}
