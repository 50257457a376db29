package artifacts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPruneStoresKeepsWhatWasUsed(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	path := func(name string) string { return filepath.Join(dir, name) }
	long := now.Add(-2 * unusedAfter)
	for _, name := range []string{"used", "recent", "old"} {
		if err := os.MkdirAll(filepath.Join(path(name), "blobs"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chtimes(path("used"), long, long), os.Chtimes(path("old"), long, long)); err != nil {
		t.Fatal(err)
	}
	if err := pruneStores(path("used"), now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"used": true, "recent": true, "old": false} {
		if exists(path(name)) != want {
			t.Errorf("store %s is there: %v, want %v", name, !want, want)
		}
	}
}
