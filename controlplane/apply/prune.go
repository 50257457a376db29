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

// Prune deletes the objects of older renderings of a component that the present rendering lacks, such as its disruption budget once it has
// a single replica. It leaves an object that does not have the tenant's labels.
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
	// Somebody has made another object in its place meanwhile.
	if apierrors.IsConflict(err) {
		return nil
	}
	a.Dismiss(reference.Kind, live)
	return client.IgnoreNotFound(err)
}
