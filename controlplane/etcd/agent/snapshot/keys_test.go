package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Without a tenant's keys nobody can read what is in its snapshots: nothing deletes them, however old they are.
func TestNothingListsOrDeletesKeyMaterial(t *testing.T) {
	folder := t.TempDir()
	s, err := store.OpenDirectory(folder, store.FieldClaimName)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key, err := archive.NewKey([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-1000 * time.Hour)
	for _, id := range []string{"01234567", strings.Repeat("a", 64)} {
		name, err := archive.KeysName(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(folder, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := Prune(t.Context(), s, key, "", Keep{Last: 1}, time.Now()); err != nil || len(gone) != 0 {
		t.Errorf("gone are %v: %v", gone, err)
	}
	if all, err := List(t.Context(), s, key); err != nil || len(all) != 0 {
		t.Errorf("it lists %v: %v", all, err)
	}
	if objects, err := s.List(t.Context()); err != nil || len(objects) != 2 {
		t.Errorf("left are %v: %v", objects, err)
	}
	for _, id := range []string{"", "0123456", "0123456G", "../01234567", strings.Repeat("a", 65), "01234567\n"} {
		if name, err := archive.KeysName(id); err == nil {
			t.Errorf("%q gives %q", id, name)
		}
	}
}
