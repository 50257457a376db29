package snapshot

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// A cluster that is made anew with the keys and the store of a former one has none of its snapshots, and deletes none.
func TestSnapshotsOfATenantWithTheSameKeyAreForeign(t *testing.T) {
	s, err := store.OpenDirectory(t.TempDir(), store.FieldClaimName)
	must(t, err)
	defer s.Close()
	key, err := archive.NewKey([]byte(strings.Repeat("k", 32)))
	must(t, err)
	begin := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	for i, uid := range []string{"former", "former", "present", "present"} {
		at := begin.Add(time.Duration(i) * time.Hour)
		content := []byte("a snapshot")
		sum := archive.Sum{Bytes: int64(len(content)), SHA256: archive.HashOf(content)}
		m := archive.Manifest{
			Cluster: archive.Cluster{Namespace: "team", Name: "blue", UID: uid}, Slot: at, Taken: at, EtcdVersion: "3.6.16", StorageVersion: "3.6",
			Revision: 7, CompactRevision: -1, Object: archive.NewObjectName(at), Encrypted: sum, Plain: archive.Sum{Bytes: 1 << 20, SHA256: sum.SHA256},
		}
		manifest, err := key.Sign(m)
		must(t, err)
		verification, err := key.SignVerification(archive.Verification{Manifest: archive.HashOf(manifest), Verified: at, EtcdVersion: "3.6.16", Revision: 7})
		must(t, err)
		for name, file := range map[string][]byte{m.Object: content, archive.ManifestName(at): manifest, archive.VerificationName(at): verification} {
			must(t, s.Put(t.Context(), name, bytes.NewReader(file)))
		}
	}
	gone, err := Prune(t.Context(), s, key, "present", Keep{Last: 1}, time.Now())
	if err != nil || len(gone) != 1 || !gone[0].Slot.Equal(begin.Add(2*time.Hour)) {
		t.Errorf("%d are gone: %v", len(gone), err)
	}
	all, err := ListOf(t.Context(), s, key, "present")
	if err != nil || len(all) != 3 || !all[0].Verified() {
		t.Fatalf("it lists %d: %v", len(all), err)
	}
	for _, e := range all[1:] {
		if e.Verified() || archive.ReasonOf(e.Err) != archive.Foreign || !strings.Contains(e.Err.Error(), "name a snapshot of this tenant") {
			t.Errorf("%s: it says %v", archive.SlotName(e.Slot), e.Err)
		}
	}
	// A person may have one of them deleted: nothing of it is left, and all of the others.
	before, err := s.List(t.Context())
	must(t, err)
	must(t, DeleteRefused(t.Context(), s, all[2]))
	must(t, DeleteRefused(t.Context(), s, all[2]))
	after, err := s.List(t.Context())
	must(t, err)
	if len(after) != len(before)-3 {
		t.Errorf("of %v %v are left", before, after)
	}
	for _, o := range after {
		if slot, _ := archive.ParseName(o.Name); slot.Equal(all[2].Slot) {
			t.Errorf("%s is left", o.Name)
		}
	}
}
