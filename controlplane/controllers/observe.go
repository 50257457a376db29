package controllers

import (
	"context"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdmembers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/observation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// observe reads what the status is computed from, after the steps. On the way it hands etcd to the operator, and keeps the objects of
// snapshots.
func (r *Reconciler) observe(ctx context.Context, s *scope) (*status.Observation, error) {
	seen := &status.Observation{Workloads: map[string]*workloads.State{}, Pods: s.snapshot.Pods}
	live, err := observation.Workloads(ctx, s.host.Client, s.controlPlane, s.key, s.live)
	if err != nil {
		return nil, err
	}
	for component, workload := range live {
		seen.Workloads[component] = etcdclusters.StateOf(s.controlPlane, component, workload)
	}
	if seen.CreationFailures, err = observation.CreationFailures(ctx, s.host.Live, live, r.Clock.Now()); err != nil {
		return nil, err
	}
	cordoned, err := etcdmembers.Cordoned(ctx, s.host.Client, seen.Pods)
	if err != nil {
		return nil, err
	}
	if s.snapshotKeepers, err = r.backups().VerifiedOn(ctx, s.controlPlane); err != nil {
		return nil, err
	}
	seen.Etcd = r.operateEtcd(s, seen.Workloads, cordoned)
	// If the backup cannot be observed, status still tells the rest.
	s.note(r.observeBackup(ctx, s))
	seen.Backup, seen.Now = s.backup, r.Clock.Now()
	seen.LostNodes, err = observation.LostNodes(ctx, s.host.Live, s.controlPlane, seen.Pods)
	return seen, err
}

// operateEtcd hands both etcd clusters to the operator, and returns its last reports.
func (r *Reconciler) operateEtcd(s *scope, workloads map[string]*workloads.State, cordoned map[string][]string) map[string]*operator.Report {
	reports, all := etcdmembers.Operate(r.etcdOperator, s.etcdFacts(workloads, cordoned))
	if !all {
		s.probing = true
	}
	return reports
}

// etcdFacts are what the operator is told of etcd clusters.
func (s *scope) etcdFacts(workloads map[string]*workloads.State, cordoned map[string][]string) *etcdmembers.Facts {
	return &etcdmembers.Facts{
		ControlPlane: s.controlPlane, Host: s.host, Input: &s.input, Keys: s.keys, KeysNeedAPerson: s.keysNeedAPerson(),
		Restore: s.rebuild.Progress, Stops: s.stops, SeedGone: s.seedGone(), Settled: s.settled(), Workloads: workloads, Cordoned: cordoned,
		SnapshotKeepers: s.snapshotKeepers,
	}
}

// keysNeedAPerson reports whether keys are gone in both places, or cannot be used. Package pki says so of what API servers
// answered, never of a cache that may be late. An error that passes is neither.
func (s *scope) keysNeedAPerson() bool {
	return slices.ContainsFunc(s.outcomes, func(o flow.Outcome) bool { return o.Name == names.StepKeyMaterial && o.Blocked() })
}

// noteRoom notes replicas for which there is no host node.
func (s *scope) noteRoom(ctx context.Context, seen *status.Observation) error {
	problems, err := observation.WithoutRoom(ctx, s.host.Live, &s.input, seen.Workloads)
	for _, problem := range problems {
		s.note(problem)
	}
	return err
}
