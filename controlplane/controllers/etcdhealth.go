package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// operateEtcd hands both etcd clusters to the operator, which observes and changes them beside reconciles, and returns
// its last reports. It starts with a cluster when a quorum is ready or a pod is to be replaced, and never leaves alone
// one that was bootstrapped, whatever is ready; there is no report of one before. Without keys it goes on with those that it
// was handed, unless only a person can bring them back.
func (r *Reconciler) operateEtcd(s *scope, workloads map[string]*workloads.State, cordoned map[string][]string) map[string]*operator.Report {
	reports := map[string]*operator.Report{}
	if s.keysNeedAPerson() {
		r.etcdOperator.Forget(client.ObjectKeyFromObject(s.controlPlane))
	}
	if s.keys == nil || len(s.input.Addresses) == 0 {
		return reports
	}
	for _, cluster := range etcdclusters.All {
		state := workloads[cluster.Component]
		if s.stops(cluster.Component) && !s.rebuild.Founding() {
			continue
		}
		if state == nil || (!state.Works() && !state.RollingOut() && !etcdclusters.Bootstrapped(s.controlPlane, cluster.Component)) {
			continue
		}
		report, ok := r.etcdOperator.Operate(etcdTask(s, cluster, *state, cordoned[cluster.Component]))
		if !ok || s.isFormer(cluster.Component, report) {
			report, s.probing = &operator.Report{Health: &etcd.Health{Err: status.ErrNotObserved}}, true
		}
		reports[cluster.Component] = report
	}
	return reports
}

// isFormer reports whether a report is of the etcd that a restore in place replaces.
func (s *scope) isFormer(component string, report *operator.Report) bool {
	return component == names.EtcdData && s.rebuild.Founding() && report.ClusterID != "" && report.ClusterID != s.rebuild.Record.ClusterID
}

// keysNeedAPerson reports whether keys are gone in both places, or cannot be used. Package pki says so of what API servers
// answered, never of a cache that may be late. An error that passes is neither.
func (s *scope) keysNeedAPerson() bool {
	return slices.ContainsFunc(s.outcomes, func(o flow.Outcome) bool { return o.Name == names.StepKeyMaterial && o.Blocked() })
}

// etcdTask is what the operator is told of an etcd cluster. It holds nothing that this reconcile still changes.
func etcdTask(s *scope, cluster etcdcomponent.Cluster, state workloads.State, cordoned []string) *operator.Task {
	only := ""
	if s.rebuild.Founding() && cluster.Component == names.EtcdData {
		only = s.rebuild.Record.Seed
	}
	return &operator.Task{
		ControlPlane: &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.controlPlane.Namespace, Name: s.controlPlane.Name, UID: s.controlPlane.UID,
		}},
		Cluster: cluster, Host: s.host, Keys: s.keys.Only(cluster.Signer), Input: s.input,
		PodCount: int(state.Desired), Bootstrapped: etcdclusters.Bootstrapped(s.controlPlane, cluster.Component) && s.seedGone(),
		Seeded: etcdclusters.Seeded(s.controlPlane, cluster.Component), RollingOut: state.RollingOut(),
		Founded:  etcdclusters.Founded(s.controlPlane, cluster.Component),
		Only:     only,
		AllReady: state.Ready >= state.Desired,
		Settled:  s.settled(),
		Cordoned: cordoned,
		Seen:     fmt.Sprintf("%+v, %v", state, etcdclusters.Status(s.controlPlane, cluster.Component).Members),
	}
}

// cordonedMembers are, by component, members of etcd whose nodes are cordoned, and those whose pods still say that
// theirs is.
func cordonedMembers(ctx context.Context, reader client.Reader, pods map[string][]corev1.Pod) (map[string][]string, error) {
	members := map[string][]string{}
	for _, component := range etcdclusters.Components {
		for i := range pods[component] {
			pod := &pods[component][i]
			cordoned, err := cordon.PodIsOn(ctx, reader, pod)
			if err != nil {
				return nil, err
			}
			if cordoned {
				members[component] = append(members[component], pod.Name)
			} else if hostpods.Condition(pod, controlplanev1.PodReadyToDrain) != nil {
				members[component] = append(members[component], pod.Name+" no more")
			}
		}
	}
	return members, nil
}
