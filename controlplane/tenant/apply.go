package tenant

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// parallel bounds the requests that are under way at once.
const parallel = 8

// Apply makes the tenant hold the objects and reports whether it wrote anything. It reads each
// object and applies, server-side, only objects with a rendered field that differs. Fields of
// others stay, such as bootstrapsigner's signatures in cluster-info. All objects are tried; the
// error joins those of each.
func Apply(ctx context.Context, tenant client.Client, objects []client.Object) (changed bool, err error) {
	var wrote atomic.Bool
	problems := make([]error, len(objects))
	group := errgroup.Group{}
	group.SetLimit(parallel)
	for i, object := range objects {
		group.Go(func() error {
			written, err := applyOne(ctx, tenant, object)
			if written {
				wrote.Store(true)
			}
			problems[i] = err
			return nil
		})
	}
	_ = group.Wait()
	return wrote.Load(), errors.Join(problems...)
}

func applyOne(ctx context.Context, tenant client.Client, object client.Object) (written bool, err error) {
	defer panics.Recover(ctx, "applying an object of the tenant", &err)
	// The mark tells of fields of an earlier rendering that this one lacks: they have to be removed.
	wanted, err := apply.Prepare(object, tenant.Scheme())
	if err != nil {
		return false, err
	}
	what := fmt.Sprintf("the tenant's %s %s", wanted.GetKind(), client.ObjectKeyFromObject(object))
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(wanted.GroupVersionKind())
	err = tenant.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, fmt.Errorf("get %s: %w", what, err)
	case apply.Contains(live.Object, wanted.Object):
		return false, nil
	case roleRefDiffers(live, wanted):
		// roleRef cannot be changed: the binding is another one.
		err := tenant.Delete(ctx, live, client.Preconditions{UID: ptr.To(live.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete %s, which binds another role: %w", what, err)
		}
	}
	err = write(ctx, tenant, wanted)
	if apierrors.IsNotFound(err) && wanted.GetNamespace() != "" {
		// kube-apiserver makes its system namespaces a moment after it is ready.
		err = ensureNamespace(ctx, tenant, wanted.GetNamespace())
		if err == nil {
			err = write(ctx, tenant, wanted)
		}
	}
	if err != nil {
		return false, fmt.Errorf("apply %s: %w", what, err)
	}
	return true, nil
}

func write(ctx context.Context, tenant client.Client, wanted *unstructured.Unstructured) error {
	return tenant.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted.DeepCopy()),
		client.FieldOwner(names.FieldManager), client.ForceOwnership)
}

func ensureNamespace(ctx context.Context, tenant client.Client, name string) error {
	err := tenant.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

func roleRefDiffers(live, wanted *unstructured.Unstructured) bool {
	ref, ok := wanted.Object["roleRef"]
	return ok && !apply.Contains(live.Object["roleRef"], ref)
}
