package components

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

// goMemoryLimit is what Go's garbage collector keeps a program's memory below; see https://pkg.go.dev/runtime.
const goMemoryLimit = "GOMEMLIMIT"

// boundMemory sets the limits of memory of the component's containers, and tells them, after patches:
// docs/decisions/hosts.md#programs-learn-their-limit-of-memory-from-kubelet.
func boundMemory(rendered, patched []client.Object) {
	for i, object := range rendered {
		before, after := patches.PodTemplate(object), patches.PodTemplate(patched[i])
		if after == nil {
			continue
		}
		ours := slices.Concat(before.Spec.InitContainers, before.Spec.Containers)
		for _, containers := range [][]corev1.Container{after.Spec.InitContainers, after.Spec.Containers} {
			for j := range containers {
				if slices.ContainsFunc(ours, func(c corev1.Container) bool { return c.Name == containers[j].Name }) {
					liftLimit(&containers[j])
					tellLimit(&containers[j])
				}
			}
		}
	}
}

// liftLimit raises the default limit to a request that a patch set above it: an API server refuses a pod whose
// request exceeds its limit.
func liftLimit(container *corev1.Container) {
	request, limit := container.Resources.Requests[corev1.ResourceMemory], container.Resources.Limits[corev1.ResourceMemory]
	if !limit.IsZero() && request.Cmp(limit) > 0 {
		container.Resources.Limits[corev1.ResourceMemory] = request
	}
}

// tellLimit has Go collect garbage harder before the kernel ends the program for its memory. kubelet fills in the limit of
// the container; without a limit, what the node has. A variable of a patch stays.
func tellLimit(container *corev1.Container) {
	if slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == goMemoryLimit }) {
		return
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: goMemoryLimit, ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"},
	}})
}
