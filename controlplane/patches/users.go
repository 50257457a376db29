package patches

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// checkUsers refuses users and groups of other tenants: a process that escapes its container must not be able to open
// files of another tenant.
func checkUsers(pod corev1.PodSpec, own ...int64) []string {
	var problems []string
	for _, id := range usersOf(pod) {
		if names.IsTenantsUser(id) && !slices.Contains(own, id) {
			problems = append(problems, fmt.Sprintf("pods cannot have the user or group %d: those from %d to %d are those of tenants; remove it, and pods run as their own tenant's",
				id, names.FirstUser, names.FirstHashedUser+names.HashedUsers-1))
		}
	}
	return slices.Compact(problems)
}

// usersOf are the users and groups that a pod and its containers name.
func usersOf(pod corev1.PodSpec) []int64 {
	var ids []int64
	add := func(named ...*int64) {
		for _, id := range named {
			if id != nil {
				ids = append(ids, *id)
			}
		}
	}
	if security := pod.SecurityContext; security != nil {
		add(security.RunAsUser, security.RunAsGroup, security.FSGroup)
		ids = append(ids, security.SupplementalGroups...)
	}
	for _, container := range containers(pod) {
		if security := container.SecurityContext; security != nil {
			add(security.RunAsUser, security.RunAsGroup)
		}
	}
	return ids
}
