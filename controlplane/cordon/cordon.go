// Package cordon tells which host nodes are cordoned: marked as taking no new pods, as "kubectl drain" does first.
//
// A manager watches all Nodes of a host cluster for it, which may be thousands and change all the time. It keeps
// little of each. Only a cordon, or its end, wakes reconciles: those of control planes with a member of etcd on
// that node.
package cordon

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// PodsByNode is the index of a cache that Members needs, made with NodeOf.
const PodsByNode = "spec.nodeName"

// NodeOf is the node of a pod, for the index PodsByNode.
func NodeOf(object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// Trim is what a cache keeps of a Node: its name, its labels, and whether it is cordoned. Code that needs more of a Node
// reads it from the API server.
func Trim(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels},
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
	}, nil
}

// Changed reports whether an update cordons a node or ends that.
func Changed(before, after any) bool {
	was, wasNode := before.(*corev1.Node)
	is, isNode := after.(*corev1.Node)
	return wasNode && isNode && was.Spec.Unschedulable != is.Spec.Unschedulable
}

// Predicate lets pass what Changed reports. A Node that is new has no pods yet.
func Predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return Changed(e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Members are the pods of members of etcd on a node, by the index of a cache.
func Members(ctx context.Context, cache client.Reader, node string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := cache.List(ctx, list, client.MatchingFields{PodsByNode: node}); err != nil {
		return nil, fmt.Errorf("list the pods on node %s: %w", node, err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return !names.IsEtcd(pod.Labels[names.ComponentLabel])
	}), nil
}

// Is reports whether a node is cordoned. One that is gone is not.
func Is(ctx context.Context, reader client.Reader, node string) (bool, error) {
	found := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: node}, found); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("read host node %s: %w", node, err)
	}
	return found.Spec.Unschedulable, nil
}

// PodIsOn reports whether the node of a pod is cordoned; false for a pod without a node.
func PodIsOn(ctx context.Context, reader client.Reader, pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName == "" {
		return false, nil
	}
	return Is(ctx, reader, pod.Spec.NodeName)
}
