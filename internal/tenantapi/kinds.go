package tenantapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one that a manager reads or writes in tenants.
type Kind struct {
	schema.GroupVersionKind

	// Resource is the name of the kind in paths.
	Resource string
	// ClusterScoped is true for a kind whose objects are in no namespace.
	ClusterScoped bool
}

// aggregated is the content type of an answer about all kinds of all groups (KEP-3352).
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// kinds are the Gate's own answers to questions about kinds, by the path that is asked. A client that asks the tenant keeps all kinds of it,
// which took most of the memory that a tenant costs, and a hostile tenant may have many.
type kinds map[string][]byte

func answersAbout(all []Kind) (kinds, error) {
	if len(all) == 0 {
		return nil, nil
	}
	core, groups := groupList(), groupList()
	for _, kind := range all {
		if kind.Group == "" {
			add(core, kind)
		} else {
			add(groups, kind)
		}
	}
	answers := kinds{}
	for path, list := range map[string]*apidiscoveryv2.APIGroupDiscoveryList{"/api": core, "/apis": groups} {
		answer, err := json.Marshal(list)
		if err != nil {
			return nil, fmt.Errorf("write which kinds tenants have: %w", err)
		}
		answers[path] = answer
	}
	return answers, nil
}

func groupList() *apidiscoveryv2.APIGroupDiscoveryList {
	return &apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{APIVersion: apidiscoveryv2.SchemeGroupVersion.String(), Kind: "APIGroupDiscoveryList"}}
}

// add adds a kind to its group, which has one version.
func add(list *apidiscoveryv2.APIGroupDiscoveryList, kind Kind) {
	at := slices.IndexFunc(list.Items, func(group apidiscoveryv2.APIGroupDiscovery) bool { return group.Name == kind.Group })
	if at < 0 {
		at = len(list.Items)
		list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{
			ObjectMeta: metav1.ObjectMeta{Name: kind.Group},
			Versions:   []apidiscoveryv2.APIVersionDiscovery{{Version: kind.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}},
		})
	}
	scope := apidiscoveryv2.ScopeNamespace
	if kind.ClusterScoped {
		scope = apidiscoveryv2.ScopeCluster
	}
	version := &list.Items[at].Versions[0]
	version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
		Resource: kind.Resource, SingularResource: strings.ToLower(kind.Kind), Scope: scope,
		ResponseKind: &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
	})
}

// answer answers a question about kinds, of a tenant whose API is below a path. It reports whether the request was one.
func (k kinds) answer(w http.ResponseWriter, request *http.Request, base string) bool {
	path := strings.TrimPrefix(request.URL.Path, strings.TrimSuffix(base, "/"))
	if k == nil || request.Method != http.MethodGet || !aboutKinds(path) {
		return false
	}
	answer, known := k[path]
	if !known {
		fail(w, http.StatusNotFound, "there is no other kind")
		return true
	}
	w.Header().Set("Content-Type", aggregated)
	_, _ = w.Write(answer)
	return true
}

// aboutKinds tells the paths of all groups, of a group and of a version of one from those of objects.
func aboutKinds(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3
}
