// Package operatortest has an operator of etcd clusters for tests of those who hand it tasks.
package operatortest

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
)

// Taskbook notes what the operator is handed, and has the reports that a test wrote. Both are by component.
type Taskbook struct {
	Tasks   map[string]*operator.Task
	Reports map[string]*operator.Report
	// Forgotten counts how often a control plane was forgotten.
	Forgotten int
}

// New has no task and no report.
func New() *Taskbook {
	return &Taskbook{Tasks: map[string]*operator.Task{}, Reports: map[string]*operator.Report{}}
}

// Operate notes a task.
func (b *Taskbook) Operate(task *operator.Task) (*operator.Report, bool) {
	b.Tasks[task.Cluster.Component] = task
	report, ok := b.Reports[task.Cluster.Component]
	return report, ok
}

// Forget counts.
func (b *Taskbook) Forget(client.ObjectKey) { b.Forgotten++ }
