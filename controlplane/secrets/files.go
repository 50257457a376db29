package secrets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Files is a Secret with files that pods mount, and that change without a restart.
type Files struct {
	Cluster         client.ObjectKey
	Name, Component string
	Owner           *metav1.OwnerReference
}

func (f Files) key() client.ObjectKey {
	return client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Name}
}

// ReadFiles gives the files as they are; nil for no Secret.
func (a Access) ReadFiles(ctx context.Context, f Files) (map[string][]byte, error) {
	secret, _, err := a.Get(ctx, f.key(), false)
	if secret == nil || err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// WriteFiles makes the Secret have these files and no others.
func (a Access) WriteFiles(ctx context.Context, f Files, files map[string][]byte) error {
	_, err := a.Settle(ctx, f.key(), func(secret *corev1.Secret) error {
		Own(secret, names.ComponentLabels(f.Cluster, f.Component), f.Owner)
		secret.Data = files
		return nil
	})
	return err
}

// DeleteFiles deletes the Secret, if it is there and ours.
func (a Access) DeleteFiles(ctx context.Context, f Files) error {
	secret := &corev1.Secret{}
	if err := a.Cached.Get(ctx, f.key(), secret); err != nil {
		return client.IgnoreNotFound(err) // The cache has every Secret of ours: one that it lacks is not ours.
	}
	if err := a.Writer.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %s: %w", f.key(), err)
	}
	return nil
}
