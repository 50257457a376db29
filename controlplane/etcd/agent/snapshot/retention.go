package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Keep is how many verified snapshots stay: the last ones, and the newest of each of the last days and weeks that have one.
// Days and weeks are those of UTC.
type Keep struct{ Last, Daily, Weekly int }

// Expired are the snapshots that may be deleted. The entries are sorted, the newest first.
//
// Nothing goes unless a newer one is verified, and stays. A snapshot that is not verified goes once keep.Last newer ones are verified. A
// snapshot that is refused stays, so that a person can look at it. A snapshot in the future stays too. Neither of them counts as newer.
func Expired(entries []Entry, keep Keep, now time.Time) []Entry {
	last := max(keep.Last, 1)
	days, weeks := map[string]bool{}, map[string]bool{}
	verified := 0
	var expired []Entry
	for _, e := range entries {
		switch {
		case e.Err != nil || archive.IsInFuture(e.Slot, now):
		case !e.Verified():
			if verified >= last {
				expired = append(expired, e)
			}
		default:
			day := e.Slot.UTC().Format(time.DateOnly)
			year, number := e.Slot.UTC().ISOWeek()
			week := fmt.Sprintf("%d-%d", year, number)
			stays := verified < last
			verified++
			if !days[day] && len(days) < keep.Daily {
				days[day], stays = true, true
			}
			if !weeks[week] && len(weeks) < keep.Weekly {
				weeks[week], stays = true, true
			}
			if !stays {
				expired = append(expired, e)
			}
		}
	}
	return expired
}

// abandoned is the age above which an object without a manifest counts as left by an upload that was cut off.
const abandoned = 24 * time.Hour

// Prune deletes what Expired names of the snapshots of a tenant, and objects that never got a manifest.
func Prune(ctx context.Context, s store.Store, key archive.Key, uid string, keep Keep, now time.Time) ([]Entry, error) {
	entries, err := ListOf(ctx, s, key, uid)
	if err != nil {
		return nil, err
	}
	var gone []Entry
	for _, e := range Expired(entries, keep, now) {
		if err := Delete(ctx, s, e); err != nil {
			return gone, err
		}
		gone = append(gone, e)
	}
	return gone, sweep(ctx, s, key, now)
}

// Delete deletes a snapshot that is not refused. The manifest goes first: if a later deletion fails, the rest is no snapshot any more.
func Delete(ctx context.Context, s store.Store, e Entry) error {
	if e.Err != nil {
		return fmt.Errorf("delete the snapshot %s: %w", archive.SlotName(e.Slot), e.Err)
	}
	for _, name := range []string{archive.ManifestName(e.Slot), archive.VerificationName(e.Slot), e.Manifest.Object} {
		if err := s.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// DeleteRefused deletes a snapshot that is refused: all that has the name of its slot, as nobody can read which object is its own. The manifest
// goes first, as with Delete.
func DeleteRefused(ctx context.Context, s store.Store, e Entry) error {
	objects, err := s.List(ctx)
	if err != nil {
		return err
	}
	files := []string{archive.ManifestName(e.Slot)}
	for _, o := range objects {
		if slot, kind := archive.ParseName(o.Name); slot.Equal(e.Slot) && (kind == archive.VerificationFile || kind == archive.ObjectFile) {
			files = append(files, o.Name)
		}
	}
	for _, name := range files {
		if err := s.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes objects and verifications that no manifest has named for a day.
func sweep(ctx context.Context, s store.Store, key archive.Key, now time.Time) error {
	objects, err := s.List(ctx)
	if err != nil {
		return err
	}
	// named are objects of manifests; slots have a manifest, which nobody may be able to read.
	named, slots := map[string]bool{}, map[time.Time]bool{}
	for _, o := range objects {
		slot, kind := archive.ParseName(o.Name)
		if kind != archive.ManifestFile {
			continue
		}
		e, err := listing.FindManifest(ctx, s, key, slot)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		named[e.Manifest.Object] = true
		slots[slot] = e.Err != nil || err != nil
	}
	for _, o := range objects {
		slot, kind := archive.ParseName(o.Name)
		unreadable, there := slots[slot]
		old := now.Sub(o.Modified) > abandoned && now.Sub(slot) > abandoned
		left := kind == archive.ObjectFile && !named[o.Name] && !unreadable || kind == archive.VerificationFile && !there
		if left && old {
			if err := s.Delete(ctx, o.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
