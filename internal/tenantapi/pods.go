package tenantapi

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// podsPage is the number of pods in a page, podsPages the greatest number of pages: Kubernetes has 150,000 pods at most.
	podsPage  = ownPage
	podsPages = 1500
)

// EachPod calls the callback with each pod of a tenant. The callback must not keep it. A tenant with more pods than Kubernetes supports
// counts as hostile.
func EachPod(ctx context.Context, guard *Guard, tenant client.Reader, do func(*corev1.Pod)) error {
	next := ""
	for range podsPages {
		page := &corev1.PodList{}
		if err := tenant.List(ctx, page, client.Limit(podsPage), client.Continue(next)); err != nil {
			return fmt.Errorf("list the pods of the tenant: %w", err)
		}
		for i := range page.Items {
			// What is told of a pod has its name, or that of its owner.
			if !named(&page.Items[i]) {
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

func named(pod *corev1.Pod) bool {
	subdomains := []string{pod.Name}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		if len(validation.IsDNS1035Label(strings.ToLower(owner.Kind))) > 0 {
			return false
		}
		subdomains = append(subdomains, owner.Name)
	}
	for _, name := range subdomains {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return false
		}
	}
	return len(validation.IsDNS1123Label(pod.Namespace)) == 0
}
