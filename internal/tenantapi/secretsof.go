package tenantapi

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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
	return bounds{"Secrets of type " + string(of), secretsPage, secretsPages, isNamespaced, invalidName}.each(ctx, guard, tenant, &corev1.SecretList{}, func(object client.Object) {
		do(object.(*corev1.Secret))
	}, client.MatchingFields{"type": string(of)})
}
