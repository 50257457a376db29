package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// unusedAfter is how long a container store is kept that no run asked for.
const unusedAfter = 24 * time.Hour

// pruneStores marks the store as used now and removes those that were not used for long: each takes more than a
// gigabyte. Hosts that were made from one keep their own links to its files.
func pruneStores(used string, now time.Time) error {
	if err := os.Chtimes(used, now, now); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Dir(used))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if now.Sub(info.ModTime()) <= unusedAfter {
			continue
		}
		if err := removeTree(filepath.Join(filepath.Dir(used), e.Name())); err != nil {
			return fmt.Errorf("remove unused container store: %w", err)
		}
	}
	return nil
}
