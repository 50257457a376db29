package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"filippo.io/age"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Options are what a snapshot is of, and who can read it.
type Options struct {
	Cluster archive.Cluster
	// Member is the name of the member, for people.
	Member          string
	EncryptionKeyID string
	// Slot is the time that the snapshot is for.
	Slot       time.Time
	Recipients []age.Recipient
	Key        archive.Key
}

// Take stores a snapshot of a member. If the slot has one already it is store.ErrExists.
func Take(ctx context.Context, m *Member, s store.Store, o Options) (archive.Manifest, error) {
	name := archive.ManifestName(o.Slot)
	switch _, err := listing.ReadFile(ctx, s, name); {
	case err == nil:
		return archive.Manifest{}, fmt.Errorf("take the snapshot %s: %w", archive.SlotName(o.Slot), store.ErrExists)
	case !errors.Is(err, store.ErrNotFound):
		return archive.Manifest{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, plain, err := m.open(ctx)
	if err != nil {
		return archive.Manifest{}, err
	}
	defer plain.Close() //nolint:errcheck // It was only read.
	manifest := archive.Manifest{
		Cluster: o.Cluster, Member: o.Member, Slot: o.Slot.UTC(), Taken: time.Now().UTC().Truncate(time.Second), EtcdVersion: at.etcdVersion, StorageVersion: at.storageVersion,
		Revision: at.revision, CompactRevision: at.compactRevision, HashKV: at.hash, EncryptionKeyID: o.EncryptionKeyID, Object: archive.NewObjectName(o.Slot),
	}
	if manifest.Encrypted, manifest.Plain, err = upload(ctx, s, manifest.Object, plain, o.Recipients); err != nil {
		return archive.Manifest{}, err
	}
	file, err := o.Key.Sign(manifest)
	if err == nil {
		err = publish(ctx, s, name, file)
	}
	if err != nil {
		return archive.Manifest{}, errors.Join(err, discard(ctx, s, name, manifest.Object))
	}
	return manifest, nil
}

// upload streams what etcd sends into an object.
func upload(ctx context.Context, s store.Store, name string, plain io.Reader, recipients []age.Recipient) (encrypted, of archive.Sum, err error) {
	out, in := io.Pipe()
	sealed := make(chan error, 1)
	go func() {
		var err error
		encrypted, of, err = archive.Seal(in, plain, recipients)
		_ = in.CloseWithError(err)
		sealed <- err
	}()
	stored := s.Put(ctx, name, out)
	_ = out.CloseWithError(errors.New("the upload has ended"))
	failed := <-sealed
	switch {
	case stored != nil:
		return archive.Sum{}, archive.Sum{}, stored
	case failed != nil:
		return archive.Sum{}, archive.Sum{}, failed
	}
	return encrypted, of, nil
}

// publish writes a file that is there once. That it is there already is no error when it is the same: an answer may get lost.
func publish(ctx context.Context, s store.Store, name string, file []byte) error {
	err := s.Put(ctx, name, bytes.NewReader(file))
	if err == nil {
		return nil
	}
	if there, readErr := listing.ReadFile(ctx, s, name); readErr == nil && bytes.Equal(there, file) {
		return nil
	}
	return err
}

// cleanUp bounds what is done after a failure.
const cleanUp = 30 * time.Second

// discard deletes an object, unless a manifest may name it.
func discard(ctx context.Context, s store.Store, manifest, object string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	file, err := listing.ReadFile(ctx, s, manifest)
	if err == nil && bytes.Contains(file, []byte(object)) || err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil // Prune deletes it where no manifest names it.
	}
	return s.Delete(ctx, object)
}
