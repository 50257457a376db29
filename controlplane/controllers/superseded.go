package controllers

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

// deleteSuperseded deletes what older renderings of a component held and what is applied now does not, such as
// the disruption budget of one that has a single replica since. What is not, or no longer, labelled as the
// tenant's stays.
func deleteSuperseded(ctx context.Context, s *scope, component string, applied []client.Object) error {
	superseded, err := s.revisions.Superseded(ctx, s.key, component)
	if err != nil {
		return err
	}
	for _, reference := range superseded {
		if slices.ContainsFunc(applied, reference.Names) {
			continue
		}
		if err := deleteReferenced(ctx, s, reference); err != nil {
			return fmt.Errorf("delete %s %s, which %s has no more: %w", reference.Kind, reference.Name, component, err)
		}
	}
	return nil
}

func deleteReferenced(ctx context.Context, s *scope, reference revision.Reference) error {
	made, err := s.host.Client.Scheme().New(reference.GroupVersionKind())
	if err != nil {
		return err
	}
	live := made.(client.Object)
	err = s.host.Client.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: reference.Name}, live)
	if err != nil || names.Tenant(live) != s.key || live.GetDeletionTimestamp() != nil {
		return client.IgnoreNotFound(err)
	}
	err = s.host.Client.Delete(ctx, live, client.Preconditions{UID: ptr.To(live.GetUID())})
	// In its place is another one by now.
	if apierrors.IsConflict(err) {
		return nil
	}
	s.host.Applier.Dismiss(reference.Kind, live)
	return client.IgnoreNotFound(err)
}
