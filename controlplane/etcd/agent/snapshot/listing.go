package snapshot

import (
	"context"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Entry is a snapshot in a store.
type Entry = listing.Entry

// ErrNotVerified says that a snapshot was not restored as a trial.
var ErrNotVerified = listing.ErrNotVerified

// List gives the snapshots of a store, the newest first.
func List(ctx context.Context, s store.Store, key archive.Key) ([]Entry, error) {
	return listing.List(ctx, s, key)
}

// ListOf gives the snapshots of a store, the newest first, and refuses those of another tenant.
func ListOf(ctx context.Context, s store.Store, key archive.Key, uid string) ([]Entry, error) {
	return listing.ListOf(ctx, s, key, uid)
}

// Find reads the snapshot of a slot. It returns store.ErrNotFound if the store does not have that snapshot.
func Find(ctx context.Context, s store.Store, key archive.Key, slot time.Time) (Entry, error) {
	return listing.Find(ctx, s, key, slot)
}
