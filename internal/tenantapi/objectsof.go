package tenantapi

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// objectsPage is the number of objects in a page, of which a tenant tells no more than their metadata, objectsPages the greatest
	// number of pages.
	objectsPage  = 100
	objectsPages = 20000
	// maxName bounds names of objects. No API server takes a longer one.
	maxName = 253
)

// EachObject calls the callback with the metadata of each object of a kind that a tenant has, until it returns an error. The callback
// must not keep it. What the object holds is not asked for. A tenant with more of them than are read counts as hostile.
func EachObject(ctx context.Context, guard *Guard, tenant client.Reader, of schema.GroupVersionKind, do func(*metav1.PartialObjectMetadata) error) error {
	next := ""
	for range objectsPages {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(of)
		if err := tenant.List(ctx, page, client.Limit(objectsPage), client.Continue(next)); err != nil {
			return fmt.Errorf("list the objects %s of the tenant: %w", of.GroupKind(), err)
		}
		for i := range page.Items {
			object := &page.Items[i]
			// What is told of an object has its name, and its path, too.
			if !isName(object.Name) || object.Namespace != "" && !isName(object.Namespace) {
				return guard.refuse(TooLarge, "it lists an object with a name that no API server takes")
			}
			if err := do(object); err != nil {
				return err
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
	return guard.refuse(TooMany, fmt.Sprintf("it lists more than %d objects %s", objectsPage*objectsPages, of.GroupKind()))
}

// isName reports whether an API server takes a name for an object of some kind.
func isName(name string) bool {
	return name != "" && len(name) <= maxName && len(content.IsPathSegmentName(name)) == 0 &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}
