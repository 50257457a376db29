// Package observation reads what the status of a control plane is computed from, after the steps of a reconcile: its workloads, why pods
// do not come into being, host nodes that are lost, and replicas for which there is no host node. It writes nothing. Package etcdmembers
// has what is told of etcd.
package observation

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

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// Workloads are the workloads of components that exist, as the steps left them or, where a step
// did not run, as the cache has them.
func Workloads(ctx context.Context, cache client.Reader, controlPlane *controlplanev1.KOKControlPlane, cluster client.ObjectKey, applied map[string]client.Object) (map[string]client.Object, error) {
	live := maps.Clone(applied)
	for component, workload := range workloads.Kinds(controlPlane) {
		if live[component] != nil {
			continue
		}
		key := client.ObjectKey{Namespace: cluster.Namespace, Name: names.Object(cluster.Name, component)}
		switch err := cache.Get(ctx, key, workload); {
		case err == nil:
			live[component] = workload
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read the workload of %s: %w", component, err)
		}
	}
	return live, nil
}

// LostNodes are the nodes of unready pods that the host cluster does not hear from: their pods may
// well be running. A control plane that never worked has none.
func LostNodes(ctx context.Context, live client.Reader, controlPlane *controlplanev1.KOKControlPlane, pods map[string][]corev1.Pod) ([]string, error) {
	suspects := map[string]bool{}
	for _, ofComponent := range pods {
		for i := range ofComponent {
			if !hostpods.Ready(&ofComponent[i]) && ofComponent[i].Spec.NodeName != "" && ofComponent[i].Status.StartTime != nil {
				suspects[ofComponent[i].Spec.NodeName] = true
			}
		}
	}
	if !ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return nil, nil
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(suspects)) {
		// The cache does not hold the conditions of Nodes.
		away, err := hostpods.NodeIsLost(ctx, live, name)
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

// CreationFailures says why pods of workloads do not come into being, such as a quota or the
// namespace's pod security level. A Deployment says so itself, of the others only events tell.
func CreationFailures(ctx context.Context, live client.Reader, of map[string]client.Object, now time.Time) (map[string]string, error) {
	failures := map[string]string{}
	for component, workload := range of {
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
		if err := live.List(ctx, list, client.InNamespace(workload.GetNamespace()), client.MatchingFields{
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
