package pki

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Files is a Secret in the host cluster with files that pods mount, and that change without a restart.
type Files struct {
	Cluster         client.ObjectKey
	Name, Component string
	Owner           *metav1.OwnerReference
}

// ReadFiles gives the files as they are; nil for no Secret.
func (s *Store) ReadFiles(ctx context.Context, f Files) (map[string][]byte, error) {
	secret, _, err := s.Host.get(ctx, client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Name}, false)
	if secret == nil || err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// WriteFiles makes the Secret have these files and no others.
func (s *Store) WriteFiles(ctx context.Context, f Files, files map[string][]byte) error {
	_, err := s.Host.settle(ctx, client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Name}, func(secret *corev1.Secret) error {
		own(secret, names.ComponentLabels(f.Cluster, f.Component), f.Owner)
		secret.Data = files
		return nil
	})
	return err
}

// DeleteFiles deletes the Secret, if it is there and ours.
func (s *Store) DeleteFiles(ctx context.Context, f Files) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Name}
	if err := s.Host.Cached.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err) // What is no cache's is not ours.
	}
	if err := s.Host.Writer.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %s: %w", key, err)
	}
	return nil
}
