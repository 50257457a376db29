//go:build envtest

package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// roll runs the pods of a DaemonSet or a Deployment and, once all of them are ready, replaces one that is not as
// its template, as rolling updates do. It tells how many are ready, and how many are as the template says.
func (h *hostCluster) roll(ctx context.Context, workload client.Object, template corev1.PodTemplateSpec, pods int32) (ready, updated int32, changed bool, err error) {
	if !h.replaces {
		ready, changed, err = h.run(ctx, workload, template, pods)
		return ready, ready, changed, err
	}
	revision, err := revisionOf(workload.GetName(), template)
	if err != nil {
		return 0, 0, false, err
	}
	labelled := template.DeepCopy()
	labelled.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	if ready, changed, err = h.run(ctx, workload, *labelled, pods); err != nil {
		return 0, 0, false, err
	}
	var outdated *corev1.Pod
	for i := range pods {
		pod := &corev1.Pod{}
		err := h.api.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: fmt.Sprintf("%s-%d", workload.GetName(), i)}, pod)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return 0, 0, false, err
		case err == nil && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision:
			updated++
		case err == nil:
			outdated = pod
		}
	}
	if outdated == nil || ready < pods {
		return ready, updated, changed, nil
	}
	return ready, updated, true, h.api.Delete(ctx, outdated)
}
