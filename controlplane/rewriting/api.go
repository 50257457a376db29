package rewriting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// mostErrors is how many failures are told of.
const mostErrors = 3

// rewrite has API servers write the objects again that a pass found. One that fails does not stop the others.
func (r *Rewriter) rewrite(ctx context.Context, found *pass) error {
	tenant, resources, err := r.connect()
	if len(resources) == 0 {
		return errors.Join(err, errors.New("the tenant's API tells of no resource that spec.encryptionAtRest names"))
	}
	failed := []error{err}
	for _, resource := range resources {
		failed = append(failed, tenantapi.EachObject(ctx, r.Guard, tenant, resource, func(object *metav1.PartialObjectMetadata) error {
			if !found.has(object.Namespace, object.Name) {
				return nil
			}
			object.SetGroupVersionKind(resource)
			err := writeAgain(ctx, tenant, object)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil:
				r.rewritten++
			case len(failed) < mostErrors:
				failed = append(failed, err)
			}
			return nil
		}))
	}
	return errors.Join(failed...)
}

// writeAgain updates an object without a change. The API server stores it when what is stored is of another key. A conflict is as good:
// somebody else wrote it; and so is an object that is gone.
func writeAgain(ctx context.Context, tenant client.Client, object *metav1.PartialObjectMetadata) error {
	unchanged := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, object.UID, object.ResourceVersion)
	err := tenant.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(unchanged)))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %s %s again: %w", object.GroupVersionKind().Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// connect makes a client for all resources that API servers encrypt, and tells their kinds. An aggregated API that does not answer is left
// out: it stores its objects elsewhere.
func (r *Rewriter) connect() (client.Client, []schema.GroupVersionKind, error) {
	config, err := r.Connect()
	if err != nil {
		return nil, nil, err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the tenant: %w", err)
	}
	lists, err := discover.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, nil, fmt.Errorf("ask the tenant for its resources: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	kinds := r.kindsOf(lists, mapper)
	tenant, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the tenant: %w", err)
	}
	return writes.Tell(tenant, writes.Tenant), kinds, nil
}

// kindsOf are the kinds of resources that API servers encrypt and that can be written again. The mapper gets to know them.
func (r *Rewriter) kindsOf(lists []*metav1.APIResourceList, mapper *meta.DefaultRESTMapper) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // No API server has it: what it would be of is told as left.
		}
		for _, resource := range list.APIResources {
			listed := version.WithResource(resource.Name)
			if strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "patch") ||
				!pki.Encrypts(r.Encryption, listed.GroupResource()) {
				continue
			}
			scope := meta.RESTScope(meta.RESTScopeRoot)
			if resource.Namespaced {
				scope = meta.RESTScopeNamespace
			}
			kind := version.WithKind(resource.Kind)
			mapper.AddSpecific(kind, listed, listed, scope)
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
