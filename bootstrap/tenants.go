package main

import (
	"context"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

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
