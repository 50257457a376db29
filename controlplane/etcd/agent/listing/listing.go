// Package listing says which snapshots a store has, and which of them are refused. It knows nothing of etcd's server, so that
// programs of people do not grow by it.
package listing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Entry is a snapshot in a store.
type Entry struct {
	Slot     time.Time
	Manifest archive.Manifest
	// Verification is nil until the snapshot is verified.
	Verification *archive.Verification
	// Err is why the snapshot is refused; the rest is empty then.
	Err error
	// File is that of the manifest.
	File []byte
}

// Verified reports whether the snapshot was restored as a trial.
func (e Entry) Verified() bool { return e.Err == nil && e.Verification != nil }

// ErrNotVerified says that a snapshot was not restored as a trial.
var ErrNotVerified = errors.New("the snapshot is not verified: run kok-etcd-agent verify first")

// List gives the snapshots of a store, the newest first.
func List(ctx context.Context, s store.Store, key archive.Key) ([]Entry, error) {
	objects, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(objects))
	for _, o := range objects {
		sizes[o.Name] = o.Bytes
	}
	var entries []Entry
	for _, o := range objects {
		slot, kind := archive.ParseName(o.Name)
		if kind != archive.ManifestFile {
			continue
		}
		_, verified := sizes[archive.VerificationName(slot)]
		e, err := find(ctx, s, key, slot, verified)
		if errors.Is(err, store.ErrNotFound) {
			continue // Another one deleted it meanwhile.
		}
		if err != nil {
			return nil, err
		}
		if size, there := sizes[e.Manifest.Object]; e.Err == nil && (!there || size < e.Manifest.Encrypted.Bytes) {
			e.Err = archive.Refuse(archive.Truncated, "%s has %d bytes, and its manifest says %d: take another snapshot, or one of another store", e.Manifest.Object, size, e.Manifest.Encrypted.Bytes)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return b.Slot.Compare(a.Slot) })
	return entries, nil
}

// ListOf gives the snapshots of a store, the newest first. It refuses those of a tenant with another UID, even if they have the same key:
// a cluster that is made anew may get the keys and the store of a former one.
func ListOf(ctx context.Context, s store.Store, key archive.Key, uid string) ([]Entry, error) {
	entries, err := List(ctx, s, key)
	for i := range entries {
		if e := &entries[i]; e.Err == nil {
			e.Err = e.Manifest.Meets(archive.Expected{UID: uid})
		}
	}
	return entries, err
}

// Find reads the snapshot of a slot. It returns store.ErrNotFound if the store does not have that snapshot.
func Find(ctx context.Context, s store.Store, key archive.Key, slot time.Time) (Entry, error) {
	return find(ctx, s, key, slot, true)
}

// FindManifest is Find that looks for no verification.
func FindManifest(ctx context.Context, s store.Store, key archive.Key, slot time.Time) (Entry, error) {
	return find(ctx, s, key, slot, false)
}

func find(ctx context.Context, s store.Store, key archive.Key, slot time.Time, verified bool) (Entry, error) {
	e := Entry{Slot: slot}
	name := archive.ManifestName(slot)
	var err error
	if e.File, err = ReadFile(ctx, s, name); err != nil {
		return Entry{}, err
	}
	if e.Manifest, e.Err = key.Read(name, e.File); e.Err != nil {
		return e, nil //nolint:nilerr // The entry says why it is refused.
	}
	// Somebody may have given a snapshot the name of another one.
	if of, kind := archive.ParseName(e.Manifest.Object); !e.Manifest.Slot.Equal(slot) || kind != archive.ObjectFile || !of.Equal(slot) {
		e.Err = archive.Refuse(archive.Tampered, "the manifest %s is that of the snapshot %s: give it that name again", name, archive.SlotName(e.Manifest.Slot))
		return e, nil
	}
	if !verified {
		return e, nil
	}
	verification, err := ReadFile(ctx, s, archive.VerificationName(slot))
	if errors.Is(err, store.ErrNotFound) {
		return e, nil
	}
	if err != nil {
		return Entry{}, err
	}
	// A verification that cannot be trusted counts as missing, so that the snapshot may be verified again.
	if v, err := key.ReadVerification(archive.VerificationName(slot), verification, e.File); err == nil {
		e.Verification = &v
	}
	return e, nil
}

// Usable is an error unless the snapshot may be read.
func (e Entry) Usable(expected archive.Expected) error {
	if e.Err != nil {
		return e.Err
	}
	if e.File == nil {
		return fmt.Errorf("the snapshot %s was not read from a store", archive.SlotName(e.Slot))
	}
	return e.Manifest.Meets(expected)
}

// ReadFile reads a manifest or a verification. It returns store.ErrNotFound if the store does not have that file. It stops after
// MaxManifest+1 bytes, and a caller refuses a file with more than MaxManifest.
func ReadFile(ctx context.Context, s store.Store, name string) ([]byte, error) {
	object, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // It was only read.
	file, err := io.ReadAll(io.LimitReader(object, archive.MaxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return file, nil
}
