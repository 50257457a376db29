package snapshot

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

func TestWhichSnapshotsAMemberLacks(t *testing.T) {
	now := time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		own, other string
		keep       Keep
		want       string
	}{
		"all of them, the newest first":            {"", "3h 1h 2h", Keep{Last: 3}, "1h 2h 3h"},
		"none that it has":                         {"1h 2h", "1h 2h", Keep{Last: 3}, ""},
		"none that it has and could not verify":    {"1h' 2h!", "1h 2h", Keep{Last: 3}, ""},
		"none that would go at once":               {"1h 2h", "3h", Keep{Last: 2}, ""},
		"one that stays for its day":               {"1h 2h", "30h 31h", Keep{Last: 2, Daily: 2}, "30h"},
		"none where the other one has none":        {"1h", "", Keep{Last: 3}, ""},
		"what was not verified expires none":       {"1h' 2h'", "3h 4h 5h", Keep{Last: 2}, "3h 4h"},
		"what is refused expires none":             {"1h! 2h!", "3h", Keep{Last: 2}, "3h"},
		"one of the middle, whatever is around it": {"1h 3h", "2h", Keep{Last: 3}, "2h"},
	} {
		t.Run(name, func(t *testing.T) {
			var slots, want []time.Time
			for _, e := range entries(t, now, test.other) {
				slots = append(slots, e.Slot)
			}
			for _, e := range entries(t, now, test.want) {
				want = append(want, e.Slot)
			}
			if got := Lacking(entries(t, now, test.own), slots, test.keep, now); !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("it lacks %v", got)
			}
		})
	}
}

// Members copy from each other, and delete when they copied: none copies again what it deleted. In the end all keep the same.
func TestMembersThatCopyComeToRest(t *testing.T) {
	now := time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // A test.
		keep := Keep{Last: 1 + random.IntN(4), Daily: random.IntN(4), Weekly: random.IntN(3)}
		members := make([][]Entry, 3)
		for slot := range 60 {
			for m := range members {
				if random.IntN(3) == 0 {
					members[m] = append(members[m], Entry{Slot: now.Add(-time.Duration(slot) * 7 * time.Hour), Verification: &archive.Verification{}})
				}
			}
		}
		for round := 0; ; round++ {
			if round == 10 {
				t.Fatalf("seed %d: they still copy", seed)
			}
			copied := 0
			for m := range members {
				for other := range members {
					var has []time.Time
					for _, e := range members[other] {
						has = append(has, e.Slot)
					}
					lacking := Lacking(members[m], has, keep, now)
					copied += len(lacking)
					for _, slot := range lacking {
						members[m] = append(members[m], Entry{Slot: slot, Verification: &archive.Verification{}})
					}
					if len(lacking) > 0 {
						members[m] = kept(members[m], keep, now)
					}
				}
			}
			if copied == 0 {
				break
			}
		}
		for _, m := range members[1:] {
			if !slices.EqualFunc(kept(m, keep, now), kept(members[0], keep, now), func(a, b Entry) bool { return a.Slot.Equal(b.Slot) }) {
				t.Fatalf("seed %d: one has %v, another %v", seed, members[0], m)
			}
		}
	}
}

// kept are entries without those that expired.
func kept(entries []Entry, keep Keep, now time.Time) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return b.Slot.Compare(a.Slot) })
	expired := Expired(entries, keep, now)
	return slices.DeleteFunc(slices.Clone(entries), func(o Entry) bool {
		return slices.ContainsFunc(expired, func(e Entry) bool { return e.Slot.Equal(o.Slot) })
	})
}

// volume is a store with one snapshot of a tenant, and its content.
func volume(t *testing.T, key archive.Key, at time.Time, content string, verified bool) (*store.Directory, archive.Manifest) {
	t.Helper()
	s, err := store.OpenDirectory(t.TempDir(), store.FieldPerMember)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	sum := archive.Sum{Bytes: int64(len(content)), SHA256: archive.HashOf([]byte(content))}
	m := archive.Manifest{
		Cluster: archive.Cluster{Namespace: "team", Name: "blue", UID: "1"}, Slot: at, Taken: at, EtcdVersion: "3.6.16", StorageVersion: "3.6",
		Revision: 7, CompactRevision: -1, Object: archive.NewObjectName(at), Encrypted: sum, Plain: archive.Sum{Bytes: 1 << 20, SHA256: sum.SHA256},
	}
	manifest, err := key.Sign(m)
	must(t, err)
	must(t, s.Put(t.Context(), m.Object, strings.NewReader(content)))
	must(t, s.Put(t.Context(), archive.ManifestName(at), bytes.NewReader(manifest)))
	if verified {
		verification, err := key.SignVerification(archive.Verification{Manifest: archive.HashOf(manifest), Verified: at, EtcdVersion: "3.6.16", Revision: 7})
		must(t, err)
		must(t, s.Put(t.Context(), archive.VerificationName(at), bytes.NewReader(verification)))
	}
	return s, m
}

func TestASnapshotIsCopiedWholeOrNotAtAll(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	key, err := archive.NewKey([]byte(strings.Repeat("k", 32)))
	must(t, err)
	other, err := archive.NewKey([]byte(strings.Repeat("o", 32)))
	must(t, err)
	replace := func(t *testing.T, s *store.Directory, name, content string) {
		t.Helper()
		must(t, s.Delete(t.Context(), name))
		must(t, s.Put(t.Context(), name, strings.NewReader(content)))
	}
	for name, test := range map[string]struct {
		edit   func(t *testing.T, from, to *store.Directory, m archive.Manifest)
		key    archive.Key
		uid    string
		reason archive.Reason
		err    error
	}{
		"as it is": {},
		"what was cut off is there": {edit: func(t *testing.T, _, to *store.Directory, m archive.Manifest) {
			must(t, to.Put(t.Context(), m.Object, strings.NewReader("a snapshot")))
		}},
		"its object was changed": {edit: func(t *testing.T, from, _ *store.Directory, m archive.Manifest) {
			replace(t, from, m.Object, "a snapsHot")
		}, reason: archive.Tampered},
		"its object is longer": {edit: func(t *testing.T, from, _ *store.Directory, m archive.Manifest) {
			replace(t, from, m.Object, "a snapshot, and more")
		}, reason: archive.Tampered},
		"its object is cut off": {edit: func(t *testing.T, from, _ *store.Directory, m archive.Manifest) { replace(t, from, m.Object, "a snap") }, reason: archive.Truncated},
		"its object is gone": {edit: func(t *testing.T, from, _ *store.Directory, m archive.Manifest) {
			must(t, from.Delete(t.Context(), m.Object))
		}, err: store.ErrNotFound},
		"it is not verified": {edit: func(t *testing.T, from, _ *store.Directory, _ archive.Manifest) {
			must(t, from.Delete(t.Context(), archive.VerificationName(at)))
		}, err: ErrNotVerified},
		"another signed it":       {key: other, reason: archive.Foreign},
		"it is of another tenant": {uid: "2", reason: archive.Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			from, m := volume(t, key, at, "a snapshot", true)
			to, err := store.OpenDirectory(t.TempDir(), store.FieldPerMember)
			must(t, err)
			defer to.Close() //nolint:errcheck // A test.
			if test.edit != nil {
				test.edit(t, from, to, m)
			}
			with, uid := key, "1"
			if test.uid != "" {
				uid = test.uid
			}
			if name == "another signed it" {
				with = test.key
			}
			err = Copy(t.Context(), from, to, with, uid, at)
			if fails := test.reason != "" || test.err != nil; fails != (err != nil) || archive.ReasonOf(err) != test.reason || test.err != nil && !errors.Is(err, test.err) {
				t.Fatalf("it says %v", err)
			}
			all, listErr := ListOf(t.Context(), to, key, "1")
			must(t, listErr)
			if err != nil {
				if len(all) != 0 {
					t.Errorf("there is %+v", all)
				}
				return
			}
			if len(all) != 1 || !all[0].Verified() || all[0].Manifest.Object != m.Object {
				t.Fatalf("there is %+v", all)
			}
			object, err := to.Get(t.Context(), m.Object)
			must(t, err)
			defer object.Close() //nolint:errcheck // It was only read.
			if content, err := io.ReadAll(object); err != nil || string(content) != "a snapshot" {
				t.Errorf("it has %q: %v", content, err)
			}
		})
	}
}

// What this member took of a slot stays.
func TestACopyReplacesNothing(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	key, err := archive.NewKey([]byte(strings.Repeat("k", 32)))
	must(t, err)
	from, _ := volume(t, key, at, "another", true)
	to, m := volume(t, key, at, "its own", false)
	if err := Copy(t.Context(), from, to, key, "1", at); !errors.Is(err, store.ErrExists) {
		t.Errorf("it says %v", err)
	}
	if all, err := List(t.Context(), to, key); err != nil || len(all) != 1 || all[0].Manifest.Object != m.Object || all[0].Err != nil {
		t.Errorf("there is %+v: %v", all, err)
	}
}
