package main

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// tenantKinds are those that the manager reads and writes in tenants, each in the version that all supported versions of Kubernetes have.
var tenantKinds = []tenantapi.Kind{
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"), Resource: "nodes", ClusterScoped: true},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: "secrets"},
	{GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Resource: "endpointslices"},
	{GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), Resource: "certificatesigningrequests", ClusterScoped: true},
}

// loggedTenants are connections to tenants whose clients log and count each write.
type loggedTenants struct{ clustercache.ClusterCache }

// GetClient implements clustercache.ClusterCache.
func (t loggedTenants) GetClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	return logged(t.ClusterCache.GetClient(ctx, cluster))
}

// GetUncachedClient implements clustercache.ClusterCache.
func (t loggedTenants) GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	return logged(t.ClusterCache.GetUncachedClient(ctx, cluster))
}

func logged(tenant client.Client, err error) (client.Client, error) {
	if err != nil {
		return nil, err
	}
	return writes.Tell(tenant, writes.Tenant), nil
}
