package etcdmembers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/restore"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// Facts are what a reconcile knows, after its steps, of what the operator is told.
type Facts struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Host         *hostclusters.Host
	Input        *components.Input
	Keys         *pki.KeyMaterial
	// KeysNeedAPerson is true when keys are gone in both places, or cannot be used.
	KeysNeedAPerson bool
	// Restore is how far a restore in place of the data etcd has come. Stops reports whether nothing of an etcd cluster may run, because
	// it is founded anew.
	Restore restore.Progress
	Stops   func(component string) bool
	// SeedGone is true when no member can begin with a snapshot any more. Settled is true when the tenant's API ever answered, and
	// status is of the present spec.
	SeedGone, Settled bool
	// SnapshotKeepers are the members of the data etcd that keep a verified snapshot on volumes of their own, in order.
	SnapshotKeepers []string
	// Workloads are what workloads say of their pods; Cordoned are what [Cordoned] found. Both are by component.
	Workloads map[string]*workloads.State
	Cordoned  map[string][]string
}

// Operator is what Operate needs of an operator.Operator.
type Operator interface {
	Operate(task *operator.Task) (*operator.Report, bool)
	Forget(controlPlane client.ObjectKey)
}

// Operate hands both etcd clusters to the operator, which observes and changes them beside reconciles, and returns
// its last reports. It starts with a cluster when a quorum is ready or a pod is to be replaced: before that the cluster has no report. It never
// leaves alone a cluster that was bootstrapped, whatever is ready. Without keys it goes on with those that it
// was handed, unless only a person can bring them back. all is false when a report of a cluster is yet to come.
func Operate(by Operator, of *Facts) (reports map[string]*operator.Report, all bool) {
	reports, all = map[string]*operator.Report{}, true
	if of.KeysNeedAPerson {
		by.Forget(client.ObjectKeyFromObject(of.ControlPlane))
	}
	if of.Keys == nil || len(of.Input.Addresses) == 0 {
		return reports, true
	}
	for _, cluster := range etcdcomponent.All {
		state := of.Workloads[cluster.Component]
		if of.Stops(cluster.Component) && !of.Restore.Founding() {
			continue
		}
		if state == nil || (!state.Works() && !state.RollingOut() && !etcdclusters.Bootstrapped(of.ControlPlane, cluster.Component)) {
			continue
		}
		report, ok := by.Operate(of.Task(cluster))
		if !ok || of.isFormer(cluster, report) {
			report, all = &operator.Report{Health: &etcd.Health{Err: status.ErrNotObserved}}, false
		}
		reports[cluster.Component] = report
	}
	return reports, all
}

// isFormer reports whether a report is of the etcd that a restore in place replaces.
func (f *Facts) isFormer(cluster etcdcomponent.Cluster, report *operator.Report) bool {
	return cluster.Restorable() && f.Restore.Founding() && report.ClusterID != "" && report.ClusterID != f.Restore.Record.ClusterID
}

// Task is what the operator is told of an etcd cluster that has a workload. It holds nothing that this reconcile still changes.
func (f *Facts) Task(cluster etcdcomponent.Cluster) *operator.Task {
	state, only, keepers := *f.Workloads[cluster.Component], "", []string(nil)
	if f.Restore.Founding() && cluster.Restorable() {
		only = f.Restore.Record.Seed
	}
	if cluster.Restorable() {
		keepers = f.SnapshotKeepers
	}
	return &operator.Task{
		ControlPlane: &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.ControlPlane.Namespace, Name: f.ControlPlane.Name, UID: f.ControlPlane.UID,
		}},
		Cluster: cluster, Host: f.Host, Keys: f.Keys.Only(cluster.Signer), Input: *f.Input,
		PodsEnd: int(state.First + state.Desired), Bootstrapped: etcdclusters.Bootstrapped(f.ControlPlane, cluster.Component) && f.SeedGone,
		Seeded: etcdclusters.Seeded(f.ControlPlane, cluster.Component), RollingOut: state.RollingOut(),
		Founded:         etcdclusters.Founded(f.ControlPlane, cluster.Component),
		Only:            only,
		AllReady:        state.Ready >= state.Desired,
		Settled:         f.Settled,
		Cordoned:        f.Cordoned[cluster.Component],
		SnapshotKeepers: keepers,
		Seen:            fmt.Sprintf("%+v, %v", state, etcdclusters.Status(f.ControlPlane, cluster.Component).Members),
	}
}

// Cordoned are, by component, members of etcd whose nodes are cordoned, and those whose pods still say that
// theirs is.
func Cordoned(ctx context.Context, reader client.Reader, pods map[string][]corev1.Pod) (map[string][]string, error) {
	members := map[string][]string{}
	for _, component := range etcdcomponent.Components() {
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
