package tenant

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterScoped are the kinds of client-go's scheme, among those that we use, without a namespace.
var clusterScoped = sets.New("Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding")

// mapper knows the resources of the kinds that are written to tenants. All clients share it: it takes 130 KiB, and never changes.
var mapper = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, version := range []schema.GroupVersion{
		{Version: "v1"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"},
		{Group: "discovery.k8s.io", Version: "v1"},
		{Group: "coordination.k8s.io", Version: "v1"},
		{Group: "apps", Version: "v1"},
		{Group: "policy", Version: "v1"},
	} {
		for kind := range clientgoscheme.Scheme.KnownTypes(version) {
			scope := meta.RESTScope(meta.RESTScopeNamespace)
			if clusterScoped.Has(kind) {
				scope = meta.RESTScopeRoot
			}
			mapper.Add(version.WithKind(kind), scope)
		}
	}
	return mapper
})

// NewClient is a client for a tenant's API, for kinds of the groups above. It knows their resources
// and requests none from the tenant, which would be most of its requests while a tenant starts.
func NewClient(config *rest.Config) (client.Client, error) {
	tenant, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client for tenant %s: %w", config.Host, err)
	}
	return tenant, nil
}
