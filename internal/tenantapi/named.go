package tenantapi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EachNamed calls the callback with each object of a kind of which every node of a tenant has one. The callback must not keep it, but may
// keep its name. what is the kind in messages. A tenant with more of them than Kubernetes supports Nodes counts as hostile.
func EachNamed(ctx context.Context, guard *Guard, tenant client.Reader, kind client.ObjectList, what string, do func(client.Object), options ...client.ListOption) error {
	next := ""
	for range nodesPages {
		page, _ := kind.DeepCopyObject().(client.ObjectList)
		if err := tenant.List(ctx, page, append(options, client.Limit(nodesPage), client.Continue(next))...); err != nil {
			return fmt.Errorf("list %s of the tenant: %w", what, err)
		}
		if err := meta.EachListItem(page, func(item runtime.Object) error {
			object, is := item.(client.Object)
			if !is || !named(object) {
				return guard.refuse(TooLarge, "it lists "+what+" with a name that no API server takes")
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
	return guard.refuse(TooMany, fmt.Sprintf("it lists more than %d %s", nodesPage*nodesPages, what))
}

// named reports whether an API server would have taken the name and the namespace of an object. Messages have them.
func named(object metav1.Object) bool {
	namespace := object.GetNamespace()
	return len(validation.IsDNS1123Subdomain(object.GetName())) == 0 && (namespace == "" || len(validation.IsDNS1123Label(namespace)) == 0)
}
