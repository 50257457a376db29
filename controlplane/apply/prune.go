package apply

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// Prune deletes what older renderings of a component held and what is applied now does not, such as the disruption budget of
// one that has a single replica since. What is not, or no longer, labelled as the tenant's stays.
func (a *Applier) Prune(ctx context.Context, tenant client.ObjectKey, component string, superseded []revision.Reference, applied []client.Object) error {
	for _, reference := range superseded {
		if slices.ContainsFunc(applied, reference.Names) {
			continue
		}
		if err := a.prune(ctx, tenant, reference); err != nil {
			return fmt.Errorf("delete %s %s, which %s has no more: %w", reference.Kind, reference.Name, component, err)
		}
	}
	return nil
}

func (a *Applier) prune(ctx context.Context, tenant client.ObjectKey, reference revision.Reference) error {
	made, err := a.client.Scheme().New(reference.GroupVersionKind())
	if err != nil {
		return err
	}
	live := made.(client.Object)
	err = a.client.Get(ctx, client.ObjectKey{Namespace: tenant.Namespace, Name: reference.Name}, live)
	if err != nil || names.Tenant(live) != tenant || live.GetDeletionTimestamp() != nil {
		return client.IgnoreNotFound(err)
	}
	err = a.client.Delete(ctx, live, client.Preconditions{UID: ptr.To(live.GetUID())})
	// In its place is another one by now.
	if apierrors.IsConflict(err) {
		return nil
	}
	a.Dismiss(reference.Kind, live)
	return client.IgnoreNotFound(err)
}
