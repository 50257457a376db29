package tenantapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// podsPage is the number of pods in a page, podsPages the greatest number of pages: Kubernetes has 150,000 pods at most.
	podsPage  = ownPage
	podsPages = 1500
)

// EachPod calls the callback with each pod of a tenant. The callback must not keep it, and checks what it takes of its owners. A tenant
// with more pods than Kubernetes supports counts as hostile.
func EachPod(ctx context.Context, guard *Guard, tenant client.Reader, do func(*corev1.Pod)) error {
	next := ""
	for range podsPages {
		page := &corev1.PodList{}
		if err := tenant.List(ctx, page, client.Limit(podsPage), client.Continue(next)); err != nil {
			return fmt.Errorf("list the pods of the tenant: %w", err)
		}
		for i := range page.Items {
			// API servers check no name or kind of an owner: those of an ordinary pod may be anything.
			if pod := &page.Items[i]; !named(pod) || pod.Namespace == "" {
				return guard.refuse(TooLarge, "it lists a pod with a name that no API server takes")
			}
			do(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
	return guard.refuse(TooMany, fmt.Sprintf("it lists more than %d pods", podsPage*podsPages))
}
