package secrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Access is the way to the Secrets of one cluster.
type Access struct {
	// Cached reads from a cache, which may be late and may lack Secrets: those are read from Live.
	Cached client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Writer writes.
	Writer client.Writer
}

// Attempts is how often a write is tried while another writer is faster.
const Attempts = 5

// ErrRace is the error of a write after all attempts.
var ErrRace = errors.New("another writer was faster each time")

// Get reads a Secret, and returns nil for one that does not exist. Unless live is true, it reads from the cache first. fromCache reports
// whether the cache had the Secret.
func (a Access) Get(ctx context.Context, key client.ObjectKey, live bool) (secret *corev1.Secret, fromCache bool, err error) {
	secret = &corev1.Secret{}
	if !live {
		err := a.Cached.Get(ctx, key, secret)
		if err == nil {
			return secret, true, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, false, fmt.Errorf("get Secret %s from the cache: %w", key, err)
		}
		secret = &corev1.Secret{}
	}
	err = a.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get Secret %s: %w", key, err)
	}
	return secret, false, nil
}

// Write creates a Secret without a resource version, and updates one with. lost is true when another writer was faster.
func (a Access) Write(ctx context.Context, secret *corev1.Secret) (lost bool, err error) {
	key := client.ObjectKeyFromObject(secret)
	if secret.ResourceVersion == "" {
		err = a.Writer.Create(ctx, secret, client.FieldOwner(names.FieldManager))
		if apierrors.IsAlreadyExists(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("create Secret %s: %w", key, err)
		}
		return false, nil
	}
	err = a.Writer.Update(ctx, secret, client.FieldOwner(names.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("update Secret %s: %w", key, err)
	}
	return false, nil
}

// Settle changes a Secret with mutate and reports whether that took a write. mutate gets the present Secret, or an empty one
// with its name, and may be called several times. A Secret from the cache can only show that nothing is to be written: every
// write is decided on what the API server has.
func (a Access) Settle(ctx context.Context, key client.ObjectKey, mutate func(*corev1.Secret) error) (bool, error) {
	for attempt := range Attempts {
		present, fromCache, err := a.Get(ctx, key, attempt > 0)
		if err != nil {
			return false, err
		}
		wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if present != nil {
			wanted = present.DeepCopy()
		}
		if err := mutate(wanted); err != nil {
			return false, err
		}
		if present != nil && apiequality.Semantic.DeepEqual(present, wanted) {
			return false, nil
		}
		if fromCache {
			continue
		}
		lost, err := a.Write(ctx, wanted)
		if err != nil {
			return false, err
		}
		if !lost {
			return true, nil
		}
	}
	return false, fmt.Errorf("write Secret %s: %w", key, ErrRace)
}

// Own sets labels and owner reference of one of our Secrets. Other labels and owners stay.
func Own(secret *corev1.Secret, labels map[string]string, owner *metav1.OwnerReference) {
	if secret.Labels == nil && len(labels) > 0 {
		secret.Labels = map[string]string{}
	}
	maps.Copy(secret.Labels, labels)
	if owner == nil {
		return
	}
	// After a restore the reference may have an older UID of the same owner.
	index := slices.IndexFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.Name == owner.Name && group(r) == group(*owner)
	})
	if index < 0 {
		secret.OwnerReferences = append(secret.OwnerReferences, *owner)
		return
	}
	secret.OwnerReferences[index] = *owner
}

func group(ref metav1.OwnerReference) string {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group
}

// Ours reports whether the controller made a Secret, by its label.
func Ours(secret *corev1.Secret) bool {
	return secret.Labels[names.ManagedByLabel] == names.ManagedBy
}

// ControlledBy reports whether an owner is the controller of a Secret.
func ControlledBy(secret *corev1.Secret, owner *metav1.OwnerReference) bool {
	controller := metav1.GetControllerOf(secret)
	return owner != nil && controller != nil && controller.UID == owner.UID
}
