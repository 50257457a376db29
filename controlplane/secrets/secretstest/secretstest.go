// Package secretstest has Secrets of two clusters in memory, and shows tests how they are written: writes are counted, can fail, and
// can be preceded by those of another writer. Caches can know nothing.
package secretstest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// Namespace is that of all Secrets.
const Namespace = "team"

// ErrKilled is the error of writes that fail.
var ErrKilled = errors.New("killed before this write")

// Clusters are the management cluster and a host cluster. Tests that read or change Secrets by these clients are not counted.
type Clusters struct {
	t                *testing.T
	Management, Host client.WithWatch
	// Writes counts what was written through accesses, to both clusters.
	Writes atomic.Int32
	// FailFrom is the number of writes after which every one fails; negative: none.
	FailFrom atomic.Int32
	// BeforeCreate and BeforeUpdate run before each creation and each update.
	BeforeCreate, BeforeUpdate func(client.Object)
	// CacheMisses makes caches know nothing.
	CacheMisses bool
}

// New gives clusters without Secrets.
func New(t *testing.T) *Clusters {
	t.Helper()
	c := &Clusters{t: t, Management: fake.NewClientBuilder().Build(), Host: fake.NewClientBuilder().Build()}
	c.FailFrom.Store(-1)
	return c
}

func (c *Clusters) write(o client.Object, before func(client.Object)) error {
	n := c.Writes.Add(1)
	if limit := c.FailFrom.Load(); limit >= 0 && n > limit {
		return ErrKilled
	}
	if before != nil {
		before(o)
	}
	return nil
}

// Access is the way to the Secrets of one of the clusters, as the manager has it.
func (c *Clusters) Access(cluster client.WithWatch) secrets.Access {
	writer := interceptor.NewClient(cluster, interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.write(o, c.BeforeCreate); err != nil {
				return err
			}
			return inner.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, inner client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := c.write(o, c.BeforeUpdate); err != nil {
				return err
			}
			return inner.Update(ctx, o, opts...)
		},
	})
	cached := interceptor.NewClient(cluster, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if c.CacheMisses {
				key.Name = "not-in-the-cache"
			}
			return inner.Get(ctx, key, o, opts...)
		},
	})
	return secrets.Access{Cached: cached, Live: cluster, Writer: writer}
}

// Get reads a Secret that must be there.
func (c *Clusters) Get(from client.Client, name string) *corev1.Secret {
	c.t.Helper()
	secret := &corev1.Secret{}
	if err := from.Get(c.t.Context(), client.ObjectKey{Namespace: Namespace, Name: name}, secret); err != nil {
		c.t.Fatal(err)
	}
	return secret
}

// Create makes a Secret as a person does: without labels and owners.
func (c *Clusters) Create(in client.Client, name string, data map[string][]byte) *corev1.Secret {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Data: data}
	if err := in.Create(c.t.Context(), secret); err != nil {
		c.t.Fatal(err)
	}
	return secret
}

// Delete deletes a Secret.
func (c *Clusters) Delete(from client.Client, name string) {
	c.t.Helper()
	if err := from.Delete(c.t.Context(), c.Get(from, name)); err != nil {
		c.t.Fatal(err)
	}
}

// Edit changes a Secret.
func (c *Clusters) Edit(in client.Client, name string, edit func(*corev1.Secret)) {
	c.t.Helper()
	secret := c.Get(in, name)
	edit(secret)
	if err := in.Update(c.t.Context(), secret); err != nil {
		c.t.Fatal(err)
	}
}
