// Package hostpods reads the pods of a tenant's control plane in its host cluster, and their nodes.
package hostpods

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// List lists the pods of a tenant's control plane, by component, sorted by name.
func List(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (map[string][]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(names.Labels(cluster))); err != nil {
		return nil, fmt.Errorf("list the pods of cluster %s: %w", cluster, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	pods := map[string][]corev1.Pod{}
	for _, pod := range list.Items {
		component := pod.Labels[names.ComponentLabel]
		pods[component] = append(pods[component], pod)
	}
	return pods, nil
}

// Trim cuts a pod down to what a cache keeps, because each tenant has a dozen pods. It drops managed fields, and all of the spec but the
// node, the names and arguments of containers, and the volumes with files of Secrets. Code that needs more of a pod reads it from the API
// server.
func Trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, InitContainers: trimContainers(pod.Spec.InitContainers), Containers: trimContainers(pod.Spec.Containers),
		Volumes: slices.DeleteFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Secret == nil && volume.Projected == nil }),
	}
	return pod, nil
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, 0, len(containers))
	for _, container := range containers {
		trimmed = append(trimmed, corev1.Container{Name: container.Name, Args: container.Args})
	}
	return trimmed
}

// Index is the place of the pod with a name; negative for none.
func Index(pods []corev1.Pod, name string) int {
	return slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name })
}

// Condition is a condition of a pod; nil for none.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	ready := Condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// Available reports whether a pod has been ready for a number of seconds.
func Available(pod *corev1.Pod, seconds int32, now time.Time) bool {
	if !Ready(pod) || seconds == 0 {
		return Ready(pod)
	}
	since := Condition(pod, corev1.PodReady).LastTransitionTime
	return !since.IsZero() && !now.Before(since.Add(time.Duration(seconds)*time.Second))
}

// Ended reports whether a pod runs no more and never will again: it was evicted, or its host was shut
// down. It stays as a record beside the one that replaced it.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// NodeIsLost reports whether the host cluster does not hear from a node: pods there may well be running.
func NodeIsLost(ctx context.Context, reader client.Reader, name string) (bool, error) {
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("read host node %s: %w", name, err)
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	}), nil
}

// CountNodes is the number of nodes that may carry control planes with a node selector.
func CountNodes(ctx context.Context, reader client.Reader, selector map[string]string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := reader.List(ctx, list, client.MatchingLabels(selector)); err != nil {
		return 0, fmt.Errorf("list the host nodes %v: %w", selector, err)
	}
	return len(list.Items), nil
}
