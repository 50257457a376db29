package rewriting

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
)

// special is where kube-apiserver stores resources whose keys do not begin with their name (SpecialDefaultResourcePrefixes of
// k8s.io/kubernetes/pkg/kubeapiserver).
var special = map[schema.GroupResource]string{
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "nodes"}:                                 "minions",
	{Resource: "replicationcontrollers"}:                "controllers",
	{Resource: "services"}:                              "services/specs",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// kind is a kind of objects that API servers serve and can be asked to write again.
type kind struct {
	schema.GroupVersionResource
	name       string
	namespaced bool
}

// object is the object of the kind that an API server stores at a key.
func (k *kind) object(key string) (namespace, name string, found bool) {
	for _, prefix := range k.prefixes() {
		rest, under := strings.CutPrefix(key, etcd.Registry+prefix+"/")
		if !under {
			continue
		}
		name = rest
		if k.namespaced {
			namespace, name, _ = strings.Cut(rest, "/")
		}
		if isName(name) && (!k.namespaced || isName(namespace)) {
			return namespace, name, true
		}
	}
	return "", "", false
}

// prefixes are how keys of the kind begin: some built-in kinds have their group before them, as custom resources have.
func (k *kind) prefixes() []string {
	var prefixes []string
	if isBuiltIn(k.Group) {
		prefix, found := special[k.GroupResource()]
		if !found {
			prefix = k.Resource
		}
		prefixes = append(prefixes, prefix)
	}
	if k.Group != "" {
		prefixes = append(prefixes, k.Group+"/"+k.Resource)
	}
	return prefixes
}

// mayHold reports whether API servers may store objects of a group at a key.
func mayHold(group, key string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(key, etcd.Registry), "/")
	if strings.Contains(first, ".") {
		return first == group
	}
	return isBuiltIn(group)
}

// isBuiltIn reports whether kube-apiserver itself may have a group: groups of custom resources have a dot.
func isBuiltIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// maxName bounds names of objects. No API server takes a longer one.
const maxName = 253

// isName reports whether an API server takes a name for an object of some kind. Only such names come into paths and messages.
func isName(name string) bool {
	return name != "" && len(name) <= maxName && len(content.IsPathSegmentName(name)) == 0 &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// resourceOf is the resource of a key as people know it: "secrets" of /registry/secrets/a/b, "widgets.example.org" of
// /registry/example.org/widgets/a/b.
func resourceOf(key string) string {
	parts := strings.Split(key, "/")
	// The first part is empty, the second one is registry.
	if len(parts) < 4 {
		return others
	}
	resource := parts[2]
	if strings.Contains(resource, ".") {
		resource = parts[3] + "." + resource
	}
	if resource == "" || len(resource) > maxResource || strings.Trim(resource, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return others
	}
	return resource
}

const (
	// others stands for resources whose names are not shown.
	others = "others"
	// maxResource bounds names of resources.
	maxResource = 100
)

// count counts values by resource. The number of resources is bounded, because a tenant names them.
type count map[string]int

// mostResources is how many resources are counted apart.
const mostResources = 1000

func (c count) add(resource string) {
	if _, known := c[resource]; !known && len(c) >= mostResources {
		resource = others
	}
	c[resource]++
}

func (c count) total() int {
	total := 0
	for _, number := range c {
		total += number
	}
	return total
}

// without is the count less another one.
func (c count) without(others count) count {
	left := count{}
	for resource, number := range c {
		if number -= others[resource]; number > 0 {
			left[resource] = number
		}
	}
	return left
}

// usable are the versions of a group whose names are valid, the preferred one first.
func usable(preferred string, versions []string) []schema.GroupVersion {
	var usable []schema.GroupVersion
	for _, version := range append([]string{preferred}, versions...) {
		parsed, err := schema.ParseGroupVersion(version)
		if err == nil && isName(parsed.Version) && (parsed.Group == "" || isName(parsed.Group)) && !slices.Contains(usable, parsed) {
			usable = append(usable, parsed)
		}
	}
	return usable
}
