package tenant

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deletion is the time for a Cluster with workers to be gone, or for its namespace.
const deletion = 10 * time.Minute

// Delete deletes the Cluster and then its namespace with all that is in it, and waits until both are gone.
func (t *Tenant) Delete(ctx context.Context) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: t.Key.Namespace, Name: t.Key.Name}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Key.Namespace}}
	if err := t.delete(ctx, "Cluster "+t.Key.String(), cluster); err != nil {
		return err
	}
	return t.delete(ctx, "Namespace "+t.Key.Namespace, namespace)
}

func (t *Tenant) delete(ctx context.Context, what string, object client.Object) error {
	err := t.Client.Delete(ctx, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", what, err)
	}
	return t.Log.Wait(ctx, "the deletion of "+what, deletion, t.next(), func(ctx context.Context) (bool, string, error) {
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), "it is still there", client.IgnoreNotFound(err)
	})
}
