package tenantapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// secretsPage is the number of Secrets in a page, secretsPages the greatest number of pages. A Secret has 1 MiB at most.
	secretsPage  = 25
	secretsPages = 1000
)

// EachSecret calls the callback with each Secret of a type that a tenant has. The callback must not keep it. A tenant with more of them
// than are read counts as hostile.
func EachSecret(ctx context.Context, guard *Guard, tenant client.Reader, of corev1.SecretType, do func(*corev1.Secret)) error {
	next := ""
	for range secretsPages {
		page := &corev1.SecretList{}
		if err := tenant.List(ctx, page, client.MatchingFields{"type": string(of)}, client.Limit(secretsPage), client.Continue(next)); err != nil {
			return fmt.Errorf("list Secrets of type %s of the tenant: %w", of, err)
		}
		for i := range page.Items {
			// Messages have the name of the Secret, so it must be a valid one.
			if len(validation.IsDNS1123Subdomain(page.Items[i].Name)) > 0 || len(validation.IsDNS1123Label(page.Items[i].Namespace)) > 0 {
				return guard.refuse(TooLarge, "it lists a Secret with a name that no API server takes")
			}
			do(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
	return guard.refuse(TooMany, fmt.Sprintf("it lists more than %d Secrets of type %s", secretsPage*secretsPages, of))
}
