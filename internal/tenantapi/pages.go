package tenantapi

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bounds are what a tenant may list of a kind. A tenant that lists more, or what no API server takes, counts as hostile.
type bounds struct {
	// what is the kind in messages.
	what string
	// page is the number of objects in a page, pages the greatest number of pages.
	page, pages int
	// valid reports whether an API server would have taken an object. invalid tells what is wrong with one that is not valid.
	valid   func(client.Object) bool
	invalid string
}

const invalidName = "a name that no API server takes"

// each calls the callback with each object that a tenant lists. kind is an empty list of them. The pager of client-go does not serve here: it
// bounds no list, and it reads the next page while the callback still has one, so that two pages of a hostile tenant are in memory.
func (b bounds) each(ctx context.Context, guard *Guard, tenant client.Reader, kind client.ObjectList, do func(client.Object), options ...client.ListOption) error {
	next := ""
	for range b.pages {
		page, _ := kind.DeepCopyObject().(client.ObjectList)
		if err := tenant.List(ctx, page, slices.Concat(options, []client.ListOption{client.Limit(b.page), client.Continue(next)})...); err != nil {
			return fmt.Errorf("list %s of the tenant: %w", b.what, err)
		}
		if err := meta.EachListItem(page, func(item runtime.Object) error {
			object, is := item.(client.Object)
			if !is || !b.valid(object) {
				return guard.refuse(TooLarge, fmt.Sprintf("it lists %s with %s", b.what, b.invalid))
			}
			do(object)
			return nil
		}); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	return guard.refuse(TooMany, fmt.Sprintf("it lists more than %d %s", b.page*b.pages, b.what))
}

// EachNamed calls the callback with each object that a tenant lists of a kind: Nodes, or what each Node has one of. The callback must not keep
// the object, but may keep its name. what is the kind in messages. A tenant with more objects than Kubernetes supports Nodes counts as hostile.
func EachNamed(ctx context.Context, guard *Guard, tenant client.Reader, kind client.ObjectList, what string, do func(client.Object), options ...client.ListOption) error {
	return bounds{what, ownPage, nodesPages, isNamed, invalidName}.each(ctx, guard, tenant, kind, do, options...)
}

// isNamed reports whether an API server takes the name and the namespace of an object.
func isNamed(object client.Object) bool {
	return len(validation.IsDNS1123Subdomain(object.GetName())) == 0 && (object.GetNamespace() == "" || isNamespaced(object))
}

// isNamespaced reports whether an API server takes the name and the namespace of an object that has to have one.
func isNamespaced(object client.Object) bool {
	return len(validation.IsDNS1123Subdomain(object.GetName())) == 0 && len(validation.IsDNS1123Label(object.GetNamespace())) == 0
}
