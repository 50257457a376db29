package controllers

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestAnEtcdWhosePodsAreOutdatedIsOperatedBeforeItsFirstQuorum(t *testing.T) {
	notes := newTaskbook()
	s, seen := askable(t), settled()
	s.controlPlane.Status.Etcd = nil
	seen.Workloads[names.EtcdData].Ready, seen.Workloads[names.EtcdData].Updated = 0, 0
	(&Reconciler{etcdOperator: notes}).operateEtcd(s, seen.Workloads, nil)
	if notes.tasks[names.EtcdData] == nil {
		t.Error("the operator does not have it, and a bad rendering cannot be taken back")
	}
}
