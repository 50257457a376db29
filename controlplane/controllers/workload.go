package controllers

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// workloadState is what a workload says of its pods.
type workloadState struct {
	// observed is true when the numbers belong to the workload's present spec.
	observed bool
	// desired pods there should be, current there are, updated are as the spec wants them. Of the ready ones
	// those are available that have been ready for the workload's minReadySeconds.
	desired, current, updated, ready, available int32
	// needed is how many must be ready for the component to work at all.
	needed int32
}

// stateOf reads a workload's status; nil for objects of other kinds.
func stateOf(object client.Object) *workloadState {
	switch w := object.(type) {
	case *appsv1.StatefulSet:
		desired := ptr.Deref(w.Spec.Replicas, 1)
		return &workloadState{
			observed: w.Status.ObservedGeneration == w.Generation,
			desired:  desired, current: w.Status.Replicas, updated: w.Status.UpdatedReplicas,
			ready: w.Status.ReadyReplicas, available: w.Status.AvailableReplicas,
			needed: desired/2 + 1,
		}
	case *appsv1.DaemonSet:
		return &workloadState{
			observed: w.Status.ObservedGeneration == w.Generation,
			desired:  w.Status.DesiredNumberScheduled, current: w.Status.CurrentNumberScheduled,
			updated: w.Status.UpdatedNumberScheduled, ready: w.Status.NumberReady, available: w.Status.NumberAvailable,
			needed: 1,
		}
	case *appsv1.Deployment:
		return &workloadState{
			observed: w.Status.ObservedGeneration == w.Generation,
			desired:  ptr.Deref(w.Spec.Replicas, 1), current: w.Status.Replicas,
			updated: w.Status.UpdatedReplicas, ready: w.Status.ReadyReplicas, available: w.Status.AvailableReplicas,
			needed: 1,
		}
	}
	return nil
}

// works reports whether enough pods are ready for the component to do its work.
func (w *workloadState) works() bool { return w != nil && w.ready >= w.needed }

// rolling reports whether not every pod may be as the spec wants it.
func (w *workloadState) rolling() bool { return w != nil && (!w.observed || w.updated < w.current) }

// wanted is how many pods there should be.
func (w *workloadState) wanted() int32 {
	if w == nil {
		return 0
	}
	return w.desired
}

// complete reports whether every pod is available and as the spec wants it.
func (w *workloadState) complete() bool {
	return w != nil && w.observed && w.desired > 0 && w.available >= w.desired && w.updated >= w.desired && w.current == w.desired
}

// waiting says what a component still needs before others may build on it; empty for nothing. A
// rollout must be over: nothing may be newer than the API server, or older than it for long. To another
// version each component goes when every pod of those before it has (Kubernetes' version skew policy).
func (w *workloadState) waiting(component string, upgrading bool) string {
	switch {
	case w.observed && w.desired == 0:
		return fmt.Sprintf("no node of the host cluster matches spec.hosting.nodeSelector, so %s runs nowhere; label host nodes", component)
	case !w.works():
		return fmt.Sprintf("%s has %d of %d pods ready and needs %d", component, w.ready, w.desired, w.needed)
	case !w.observed || w.updated < min(w.current, w.desired):
		return fmt.Sprintf("%s rolls out: %d of %d pods are up to date", component, w.updated, w.desired)
	case upgrading && !w.complete():
		return fmt.Sprintf("others are upgraded when %s is: of %d pods %d are up to date, %d available, and %d exist", component, w.desired, w.updated, w.available, w.current)
	}
	return ""
}

// etcdName is the name of an etcd cluster in status.
func etcdName(component string) string {
	if component == names.EtcdData {
		return "data"
	}
	return "events"
}
