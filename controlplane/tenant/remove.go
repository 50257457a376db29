package tenant

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Remove deletes the given objects from the tenant, with what they own, where they have our label.
// Another object under the same name stays.
func Remove(ctx context.Context, tenant client.Client, objects []client.Object) error {
	var problems []error
	for _, object := range objects {
		problems = append(problems, removeOne(ctx, tenant, object))
	}
	return errors.Join(problems...)
}

func removeOne(ctx context.Context, tenant client.Client, object client.Object) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	what := fmt.Sprintf("the tenant's %s %s", live.Kind, client.ObjectKeyFromObject(object))
	err := tenant.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) || (err == nil && live.Labels[names.ManagedByLabel] != names.ManagedBy) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", what, err)
	}
	err = tenant.Delete(ctx, live, client.Preconditions{UID: ptr.To(live.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", what, err)
	}
	return nil
}
