// Package bytenant finds the objects of one tenant in a cache by an index. A list by labels reads every object of the namespace
// instead, which may have thousands of tenants, each with dozens of objects. Only the cache of the management cluster has the index:
// those of other host clusters hold one namespace each.
package bytenant

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// index is the name of the index.
const index = "kok-tenant"

// AddIndex adds the index to a cache, for the kinds that reconciles list.
func AddIndex(ctx context.Context, cache client.FieldIndexer) error {
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.ConfigMap{}, &appsv1.ControllerRevision{}} {
		if err := cache.IndexField(ctx, kind, index, tenantOf); err != nil {
			return fmt.Errorf("index %T by tenants: %w", kind, err)
		}
	}
	return nil
}

// tenantOf is the value of the index for an object.
func tenantOf(object client.Object) []string {
	tenant := names.Tenant(object)
	if tenant.Name == "" {
		return nil
	}
	return []string{tenant.String()}
}

// Client returns a client that lists by the index where the labels of one tenant are asked for. All lists of the client must come
// from a cache that has the index: API servers have none.
func Client(cached client.Client) client.Client { return &indexed{cached} }

type indexed struct{ client.Client }

// List lists by the index if it can. The labels still count: an index that is wrong would show nothing of others.
func (c *indexed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *corev1.ServiceList, *corev1.ConfigMapList, *appsv1.ControllerRevisionList:
		asked := (&client.ListOptions{}).ApplyOptions(options)
		if tenant := tenantIn(asked.LabelSelector); tenant != "" && asked.FieldSelector == nil {
			options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(index, tenant)})
		}
	}
	return c.Client.List(ctx, list, options...)
}

// tenantIn is the one tenant whose labels a selector asks for; empty for none.
func tenantIn(selector labels.Selector) string {
	if selector == nil {
		return ""
	}
	asked := labels.Set{}
	for _, key := range []string{names.ManagedByLabel, names.ClusterNamespaceLabel, names.ClusterNameLabel} {
		value, exact := selector.RequiresExactMatch(key)
		if !exact {
			return ""
		}
		asked[key] = value
	}
	if asked[names.ManagedByLabel] != names.ManagedBy {
		return ""
	}
	return client.ObjectKey{Namespace: asked[names.ClusterNamespaceLabel], Name: asked[names.ClusterNameLabel]}.String()
}
