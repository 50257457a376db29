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
func (h *hostCluster) roll(ctx context.Context, workload client.Object, template corev1.PodTemplateSpec, count int32, s *seen) (ready, updated int32, changed bool, err error) {
	if !h.replaces {
		ready, changed, err = h.run(ctx, workload, template, count, s)
		return ready, ready, changed, err
	}
	revision, err := revisionOf(workload.GetName(), template)
	if err != nil {
		return 0, 0, false, err
	}
	labelled := template.DeepCopy()
	labelled.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	if ready, changed, err = h.run(ctx, workload, *labelled, count, s); err != nil {
		return 0, 0, false, err
	}
	var outdated *corev1.Pod
	for i := range count {
		pod := s.pods[fmt.Sprintf("%s-%d", workload.GetName(), i)]
		switch {
		case pod == nil:
		case pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision:
			updated++
		default:
			outdated = pod
		}
	}
	if outdated == nil || ready < count {
		return ready, updated, changed, nil
	}
	return ready, updated, true, h.api.Delete(ctx, outdated)
}
