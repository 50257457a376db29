// Package workloads says of a StatefulSet, DaemonSet or Deployment how many pods it has, and whether others may build on it.
package workloads

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
)

// State is what a workload says of its pods.
type State struct {
	// Observed is true when the numbers belong to the workload's present spec.
	Observed bool
	// First is the ordinal of the first pod of a StatefulSet.
	First int32
	// Desired pods there should be, current there are, updated are as the spec wants them. Of the ready ones
	// those are available that have been ready for the workload's minReadySeconds.
	Desired, Current, Updated, Ready, Available int32
	// Needed is how many must be ready for the component to work at all.
	Needed int32
}

// Ordinals returns the ordinals of the pods that a StatefulSet should have: from first to the last one before end. A StatefulSet without a
// number of replicas, as one that was not found, should have no pod.
func Ordinals(set *appsv1.StatefulSet) (first, end int32) {
	if set.Spec.Ordinals != nil {
		first = set.Spec.Ordinals.Start
	}
	return first, first + ptr.Deref(set.Spec.Replicas, 0)
}

// StateOf reads a workload's status; nil for objects of other kinds.
func StateOf(object client.Object) *State {
	switch w := object.(type) {
	case *appsv1.StatefulSet:
		first, end := Ordinals(w)
		desired := end - first
		return &State{
			First:    first,
			Observed: w.Status.ObservedGeneration == w.Generation,
			Desired:  desired, Current: w.Status.Replicas, Updated: w.Status.UpdatedReplicas,
			Ready: w.Status.ReadyReplicas, Available: w.Status.AvailableReplicas,
			Needed: desired/2 + 1,
		}
	case *appsv1.DaemonSet:
		return &State{
			Observed: w.Status.ObservedGeneration == w.Generation,
			Desired:  w.Status.DesiredNumberScheduled, Current: w.Status.CurrentNumberScheduled,
			Updated: w.Status.UpdatedNumberScheduled, Ready: w.Status.NumberReady, Available: w.Status.NumberAvailable,
			Needed: 1,
		}
	case *appsv1.Deployment:
		return &State{
			Observed: w.Status.ObservedGeneration == w.Generation,
			Desired:  ptr.Deref(w.Spec.Replicas, 1), Current: w.Status.Replicas,
			Updated: w.Status.UpdatedReplicas, Ready: w.Status.ReadyReplicas, Available: w.Status.AvailableReplicas,
			Needed: 1,
		}
	}
	return nil
}

// Works reports whether enough pods are ready for the component to do its work.
func (w *State) Works() bool { return w != nil && w.Ready >= w.Needed }

// RollingOut reports whether a pod may not be as the spec wants it.
func (w *State) RollingOut() bool {
	return w != nil && w.Current > 0 && (!w.Observed || w.Updated < w.Current)
}

// Wanted is how many pods there should be.
func (w *State) Wanted() int32 {
	if w == nil {
		return 0
	}
	return w.Desired
}

// Complete reports whether every pod is available and as the spec wants it.
func (w *State) Complete() bool {
	return w != nil && w.Observed && w.Desired > 0 && w.Available >= w.Desired && w.Updated >= w.Desired && w.Current == w.Desired
}

// Waiting says what a component still needs before others may build on it; empty for nothing. A
// rollout must be over: nothing may be newer than the API server, or older than it for long. To another
// version each component goes when every pod of those before it has (Kubernetes' version skew policy).
func (w *State) Waiting(component string, upgrading bool) string {
	switch {
	case w.Observed && w.Desired == 0:
		return fmt.Sprintf("no node of the host cluster matches spec.hosting.nodeSelector and portPool, so %s runs nowhere; label host nodes", component)
	case !w.Works():
		return fmt.Sprintf("%s has %d of %d pods ready and needs %d", component, w.Ready, w.Desired, w.Needed)
	case !w.Observed || w.Updated < min(w.Current, w.Desired):
		return fmt.Sprintf("%s rolls out: %d of %d pods are up to date", component, w.Updated, w.Desired)
	case upgrading && !w.Complete():
		return fmt.Sprintf("others are upgraded when %s is: of %d pods %d are up to date, %d available, and %d exist", component, w.Desired, w.Updated, w.Available, w.Current)
	}
	return ""
}

// Kinds are empty objects of the kinds of components' workloads, by component.
func Kinds(controlPlane *controlplanev1.KOKControlPlane) map[string]client.Object {
	kinds := map[string]client.Object{}
	for _, component := range registry.Components.Of(&controlPlane.Spec) {
		kinds[component.Name] = component.Workload(&controlPlane.Spec)
	}
	return kinds
}
