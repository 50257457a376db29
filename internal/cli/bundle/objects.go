package bundle

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	// pageSize is how many objects are read at once, maxObjects how many of one resource in a namespace.
	pageSize   = 250
	maxObjects = 5000
)

// reference is how an Event names the object that it is about.
type reference struct{ kind, namespace, name string }

// beside are the resources of managers and control planes besides objects of Cluster API. Secrets and Events are collected
// separately.
var beside = []schema.GroupResource{
	{Resource: "pods"}, {Resource: "services"}, {Resource: "configmaps"}, {Resource: "persistentvolumeclaims"},
	{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "daemonsets"}, {Group: "apps", Resource: "statefulsets"},
	{Group: "policy", Resource: "poddisruptionbudgets"}, {Group: "networking.k8s.io", Resource: "networkpolicies"},
	{Group: "discovery.k8s.io", Resource: "endpointslices"}, {Group: "coordination.k8s.io", Resource: "leases"},
}

// ofClusterAPI reports whether a group is Cluster API's, or that of one of its providers.
func ofClusterAPI(group string) bool {
	return group == clusterv1.GroupVersion.Group || strings.HasSuffix(group, "."+clusterv1.GroupVersion.Group)
}

func (c *collector) collectObjects(ctx context.Context, s *scope) {
	lists, err := c.discovery.ServerPreferredResources()
	c.note("resources of the API server", err) // The lists have the resources of the groups that answered.
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			c.note("resources of "+list.GroupVersion, err)
			continue
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") {
				c.collectResource(ctx, s, version.WithResource(resource.Name), resource.Namespaced)
			}
		}
	}
	c.collectDefinitions(ctx)
}

// collectResource writes the objects of one resource that belong into the bundle.
func (c *collector) collectResource(ctx context.Context, s *scope, resource schema.GroupVersionResource, namespaced bool) {
	own := ofClusterAPI(resource.Group)
	if !namespaced {
		if own || resource.Group == "" && resource.Resource == "nodes" {
			c.writeList(ctx, s, resource, "", "")
		}
		return
	}
	if !own && !slices.Contains(beside, resource.GroupResource()) {
		return
	}
	for _, namespace := range s.namespaces() {
		selector := ""
		if !own && !s.providerNamespaces[namespace] {
			selector = names.ManagedByLabel + "=" + names.ManagedBy // Other programs run there, too.
		}
		c.writeList(ctx, s, resource, namespace, selector)
	}
}

func (c *collector) writeList(ctx context.Context, s *scope, resource schema.GroupVersionResource, namespace, selector string) {
	objects, err := c.list(ctx, resource, namespace, selector)
	c.note(strings.TrimSuffix(resource.GroupResource().String()+" in namespace "+namespace, " in namespace "), err)
	var b bytes.Buffer
	for i := range objects {
		object := &objects[i]
		if !s.has(object) {
			continue
		}
		c.seen[reference{object.GetKind(), object.GetNamespace(), object.GetName()}] = true
		c.writeConditions(object)
		c.redactor.object(object)
		data, err := yaml.Marshal(object.Object)
		c.note("write "+object.GetKind()+" "+object.GetName(), err)
		_, _ = fmt.Fprintf(&b, "---\n%s", data)
	}
	where := namespace
	if where == "" {
		where = "_cluster"
	}
	c.archive.write("objects/"+where+"/"+strings.TrimSuffix(resource.Resource+"."+resource.Group, ".")+".yaml", b.Bytes())
}

// list reads a resource page by page. With an error it returns what was read before.
func (c *collector) list(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: selector}
	for {
		page, err := c.dynamic.Resource(resource).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
		if len(all) >= maxObjects {
			return all, fmt.Errorf("there are more than %d, and the others were left out", maxObjects)
		}
	}
}

// writeConditions adds the conditions of an object to the page of all.
func (c *collector) writeConditions(object *unstructured.Unstructured) {
	found, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil || len(found) == 0 || object.GetKind() == "Pod" {
		return
	}
	_, _ = fmt.Fprintf(&c.conditions, "%s %s/%s\n", object.GetKind(), object.GetNamespace(), object.GetName())
	for _, each := range found {
		condition, _ := each.(map[string]any)
		word := func(key string) string { text, _ := condition[key].(string); return text }
		_, _ = fmt.Fprintf(&c.conditions, "  %s=%s %s since %s: %s\n", word("type"), word("status"), word("reason"),
			word("lastTransitionTime"), strings.ReplaceAll(word("message"), "\n", "\n    "))
	}
}

// collectDefinitions writes which versions the kinds of Cluster API have here, without their schemas.
func (c *collector) collectDefinitions(ctx context.Context) {
	definitions, err := c.list(ctx, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", "")
	c.note("CustomResourceDefinitions", err)
	var b strings.Builder
	for i := range definitions {
		group, _, _ := unstructured.NestedString(definitions[i].Object, "spec", "group")
		stored, _, _ := unstructured.NestedStringSlice(definitions[i].Object, "status", "storedVersions")
		if ofClusterAPI(group) {
			_, _ = fmt.Fprintf(&b, "%s: stored as %s, provider %s\n", definitions[i].GetName(), strings.Join(stored, ", "), definitions[i].GetLabels()[clusterv1.ProviderNameLabel])
		}
	}
	c.text("definitions.txt", b.String())
}

// collectEvents writes the Events of objects that are in the bundle. Those of Nodes are in the namespace default.
func (c *collector) collectEvents(ctx context.Context, s *scope) {
	namespaces := s.namespaces()
	if !slices.Contains(namespaces, metav1.NamespaceDefault) {
		namespaces = append(namespaces, metav1.NamespaceDefault)
	}
	for _, namespace := range namespaces {
		events, err := c.list(ctx, corev1.SchemeGroupVersion.WithResource("events"), namespace, "")
		c.note("events in namespace "+namespace, err)
		var b bytes.Buffer
		for i := range events {
			about, _, _ := unstructured.NestedStringMap(events[i].Object, "involvedObject")
			if !c.seen[reference{about["kind"], about["namespace"], about["name"]}] {
				continue
			}
			c.redactor.object(&events[i])
			data, err := yaml.Marshal(events[i].Object)
			c.note("write an Event of "+namespace, err)
			_, _ = fmt.Fprintf(&b, "---\n%s", data)
		}
		c.archive.write("events/"+namespace+".yaml", b.Bytes())
	}
}
