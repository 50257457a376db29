package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// observe reads what the status is computed from, after the steps. On the way it hands etcd to the operator, and keeps the objects of
// snapshots.
func (r *Reconciler) observe(ctx context.Context, s *scope) (*status.Observation, error) {
	seen := &status.Observation{Workloads: map[string]*workloads.State{}, Pods: s.snapshot.Pods, Etcd: map[string]*operator.Report{}}
	live, err := workloadsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	for component, workload := range live {
		seen.Workloads[component] = s.stateOf(component, workload)
	}
	if seen.CreationFailures, err = creationFailures(ctx, s, live, r.Clock.Now()); err != nil {
		return nil, err
	}
	cordoned, err := cordonedMembers(ctx, s.host.Client, seen.Pods)
	if err != nil {
		return nil, err
	}
	seen.Etcd = r.operateEtcd(s, seen.Workloads, cordoned)
	// A backup that cannot be told of is no reason to tell nothing.
	s.note(r.observeBackup(ctx, s))
	seen.Backup, seen.Now = s.backup, r.Clock.Now()
	seen.LostNodes, err = lostNodes(ctx, s, seen.Pods)
	return seen, err
}

// workloadsOf are the workloads of components that exist, as the steps left them or, where a step
// did not run, as the cache has them.
func workloadsOf(ctx context.Context, s *scope) (map[string]client.Object, error) {
	live := maps.Clone(s.live)
	for component, workload := range workloads.Kinds(s.controlPlane) {
		if live[component] != nil {
			continue
		}
		key := client.ObjectKey{Namespace: s.key.Namespace, Name: names.Object(s.key.Name, component)}
		switch err := s.host.Client.Get(ctx, key, workload); {
		case err == nil:
			live[component] = workload
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read the workload of %s: %w", component, err)
		}
	}
	return live, nil
}

// lostNodes are the nodes of unready pods that the host cluster does not hear from: their pods may
// well be running.
func lostNodes(ctx context.Context, s *scope, pods map[string][]corev1.Pod) ([]string, error) {
	suspects := map[string]bool{}
	for _, ofComponent := range pods {
		for i := range ofComponent {
			if !hostpods.Ready(&ofComponent[i]) && ofComponent[i].Spec.NodeName != "" && ofComponent[i].Status.StartTime != nil {
				suspects[ofComponent[i].Spec.NodeName] = true
			}
		}
	}
	if !ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return nil, nil
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(suspects)) {
		// The cache does not hold the conditions of Nodes.
		away, err := hostpods.NodeIsLost(ctx, s.host.Live, name)
		if err != nil {
			return nil, err
		}
		if away {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// creationPatience is how old a workload without its pods must be before its events are read.
const creationPatience = 5 * time.Second

// creationFailures says why a workload's pods do not come into being, such as a quota or the
// namespace's pod security level. A Deployment says so itself, of the others only events tell.
func creationFailures(ctx context.Context, s *scope, live map[string]client.Object, now time.Time) (map[string]string, error) {
	failures := map[string]string{}
	for component, workload := range live {
		state := workloads.StateOf(workload)
		if state == nil || !state.Observed || state.Current >= state.Desired ||
			now.Sub(workload.GetCreationTimestamp().Time) < creationPatience {
			continue
		}
		if deployment, ok := workload.(*appsv1.Deployment); ok {
			for _, c := range deployment.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
					failures[component] = c.Message
				}
			}
			continue
		}
		list := &corev1.EventList{} // No cache holds Events.
		if err := s.host.Live.List(ctx, list, client.InNamespace(workload.GetNamespace()), client.MatchingFields{
			"involvedObject.uid": string(workload.GetUID()), "reason": "FailedCreate",
		}); err != nil {
			return nil, fmt.Errorf("list events of %s %s: %w", component, client.ObjectKeyFromObject(workload), err)
		}
		if len(list.Items) > 0 {
			latest := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
			failures[component] = latest.Message
		}
	}
	return failures, nil
}
