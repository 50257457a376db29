package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Lacking are the slots of verified snapshots of another store that entries lack, the newest first; without those that would expire at once.
// What is kept of both stores together is kept of fewer snapshots too, so nothing is copied and deleted again and again.
func Lacking(entries []Entry, verified []time.Time, keep Keep, now time.Time) []time.Time {
	all := slices.Clone(entries)
	var lacking []time.Time
	for _, slot := range verified {
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Slot.Equal(slot) }) {
			lacking = append(lacking, slot)
			all = append(all, Entry{Slot: slot, Verification: &archive.Verification{}})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return b.Slot.Compare(a.Slot) })
	expired := Expired(all, keep, now)
	lacking = slices.DeleteFunc(lacking, func(slot time.Time) bool {
		return slices.ContainsFunc(expired, func(e Entry) bool { return e.Slot.Equal(slot) })
	})
	slices.SortFunc(lacking, func(a, b time.Time) int { return b.Compare(a) })
	return lacking
}

// Copy copies a verified snapshot of a tenant from one store into another. The object is there before its manifest, as with Take, and the
// verification comes last. Nothing is copied that is not what the tenant wrote.
func Copy(ctx context.Context, from, to store.Store, key archive.Key, uid string, slot time.Time) error {
	e, err := Find(ctx, from, key, slot)
	if err != nil {
		return err
	}
	if err := e.Usable(archive.Expected{UID: uid}); err != nil {
		return err
	}
	if !e.Verified() {
		return fmt.Errorf("copy the snapshot %s: %w", archive.SlotName(slot), ErrNotVerified)
	}
	verification, err := listing.ReadFile(ctx, from, archive.VerificationName(slot))
	if err != nil {
		return err
	}
	object, err := from.Get(ctx, e.Manifest.Object)
	if err != nil {
		return err
	}
	defer object.Close() //nolint:errcheck // It was only read.
	// The object may be there already: an earlier copy wrote it and ended before it wrote the manifest.
	if err := to.Put(ctx, e.Manifest.Object, e.Manifest.Checked(object)); err != nil && !errors.Is(err, store.ErrExists) {
		return err
	}
	if err := publish(ctx, to, archive.ManifestName(slot), e.File); err != nil {
		return errors.Join(err, discard(ctx, to, archive.ManifestName(slot), e.Manifest.Object))
	}
	// An earlier snapshot of this slot may have left its verification, which does not fit this manifest.
	if err := to.Delete(ctx, archive.VerificationName(slot)); err != nil {
		return err
	}
	return to.Put(ctx, archive.VerificationName(slot), bytes.NewReader(verification))
}
