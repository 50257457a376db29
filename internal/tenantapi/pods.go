package tenantapi

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podsPages is the greatest number of pages: Kubernetes has 150,000 pods at most.
const podsPages = 1500

// EachPod calls the callback with each pod of a tenant. The callback must not keep it, and checks what it takes of its owners: API servers
// take those of any kind and name. A tenant with more pods than Kubernetes supports counts as hostile.
func EachPod(ctx context.Context, guard *Guard, tenant client.Reader, do func(*corev1.Pod)) error {
	return bounds{"pods", ownPage, podsPages, isNamespaced, invalidName}.each(ctx, guard, tenant, &corev1.PodList{}, func(object client.Object) {
		do(object.(*corev1.Pod))
	})
}
