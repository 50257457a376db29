package tenantapi

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// What a client keeps of a tenant's kinds was 0.4 MiB for each tenant, of 0.6 MiB for all that is kept.
func TestATenantIsNotAskedForItsKinds(t *testing.T) {
	kinds := []Kind{
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"), Resource: "nodes", ClusterScoped: true},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: "secrets"},
		{GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Resource: "endpointslices"},
	}
	g := serveGateBy(t, clock.RealClock{}, kinds...)
	config := g.connect(tenant(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the tenant is asked for %s", r.URL.Path)
		http.Error(w, "", http.StatusForbidden)
	}))
	asking, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, asking)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		if clusterScoped := mapping.Scope.Name() == meta.RESTScopeNameRoot; mapping.Resource.Resource != kind.Resource || clusterScoped != kind.ClusterScoped {
			t.Errorf("%s is %s, in no namespace: %t", kind.Kind, mapping.Resource, clusterScoped)
		}
	}
	if _, err := mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()); !meta.IsNoMatchError(err) {
		t.Errorf("a kind that nobody needs: %v", err)
	}
}
