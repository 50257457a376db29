// Package inventory lists everything that a namespace holds, of every kind that the API server knows,
// and tells what of an object was wanted by somebody apart from what the API server and controllers add.
package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Inventory lists objects.
type Inventory struct {
	client    dynamic.Interface
	resources []schema.GroupVersionResource
}

// New asks the API server for its namespaced resources that can be listed.
func New(config *rest.Config) (*Inventory, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // deprecated resources are listed too
	config.QPS, config.Burst = 200, 400
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	inventory := &Inventory{}
	if inventory.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	lists, err := found.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its resources: %w", err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "get") {
				inventory.resources = append(inventory.resources, version.WithResource(resource.Name))
			}
		}
	}
	return inventory, nil
}

// Object is one object with the resource that it is served as.
type Object struct {
	*unstructured.Unstructured
	Resource schema.GroupVersionResource
}

// String is "<resource>/<name>", with the group.
func (o Object) String() string { return o.Resource.GroupResource().String() + "/" + o.GetName() }

// Namespace lists everything in a namespace. An object that is served in several groups is listed once.
func (i *Inventory) Namespace(ctx context.Context, namespace string) ([]Object, error) {
	var objects []Object
	var failed []error
	seen := map[types.UID]bool{}
	for _, resource := range i.resources {
		list, err := i.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("list %s in namespace %s: %w", resource.GroupResource(), namespace, err))
			continue
		}
		for j := range list.Items {
			item := &list.Items[j]
			if item.GetUID() != "" && seen[item.GetUID()] {
				continue
			}
			seen[item.GetUID()] = true
			objects = append(objects, Object{Unstructured: item, Resource: resource})
		}
	}
	return objects, errors.Join(failed...)
}

// Get reads an object again; nil when it is gone.
func (i *Inventory) Get(ctx context.Context, o Object) (*unstructured.Unstructured, error) {
	live, err := i.Client(o).Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// Client is a client of the object's resource in its namespace.
func (i *Inventory) Client(o Object) dynamic.ResourceInterface {
	return i.client.Resource(o.Resource).Namespace(o.GetNamespace())
}

// serverSet are annotations that Kubernetes' own controllers count in.
var serverSet = []string{"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"}

// Wanted is what somebody wanted of an object: without its status, its identity and its history. The
// values of a Secret are hashes, so that they can be compared and never printed.
func Wanted(object *unstructured.Unstructured) map[string]any {
	wanted := object.DeepCopy()
	delete(wanted.Object, "status")
	metadata, _ := wanted.Object["metadata"].(map[string]any)
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"} {
		delete(metadata, field)
	}
	annotations := wanted.GetAnnotations()
	for _, name := range serverSet {
		delete(annotations, name)
	}
	wanted.SetAnnotations(annotations)
	withoutNodePorts(wanted)
	if object.GetKind() == "Secret" && !strings.Contains(object.GetAPIVersion(), "/") {
		values, _, _ := unstructured.NestedStringMap(object.Object, "data")
		hashes := map[string]any{}
		for name, value := range values {
			raw, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				raw = []byte(value)
			}
			hashes[name] = Hash(raw)
		}
		wanted.Object["data"] = hashes
	}
	return wanted.Object
}

// withoutNodePorts forgets the ports of nodes that Kubernetes chooses for a Service behind a load balancer: nobody asked for
// any.
func withoutNodePorts(object *unstructured.Unstructured) {
	if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); object.GetKind() != "Service" || kind != "LoadBalancer" {
		return
	}
	ports, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "ports")
	list, _ := ports.([]any)
	for _, port := range list {
		if fields, ok := port.(map[string]any); ok {
			delete(fields, "nodePort")
		}
	}
}

// Hash is what Wanted has in place of a Secret's value.
func Hash(value []byte) string {
	sum := sha256.Sum256(value)
	return fmt.Sprintf("%d bytes, sha256:%s", len(value), hex.EncodeToString(sum[:8]))
}
