// Command verify checks that generated files are what make generate writes now. It compares the
// files themselves, not with git, so that it says the same before and after a commit.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// roots are the folders that make generate writes into.
var roots = []string{"api", "config", "docs/reference"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func run() error {
	before, err := snapshot(roots)
	if err != nil {
		return err
	}
	cmd := exec.Command("make", "generate")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make generate: %w\n%s", err, output)
	}
	after, err := snapshot(roots)
	if err != nil {
		return err
	}
	changed := difference(before, after)
	if len(changed) > 0 {
		return fmt.Errorf("generated files were not up to date; make generate has just updated them, commit them:\n  %s",
			strings.Join(changed, "\n  "))
	}
	fmt.Printf("generated files are up to date (%d files compared)\n", len(after))
	return nil
}

// snapshot returns the hash of every file below the roots. A root that is not there is empty.
func snapshot(roots []string) (map[string][sha256.Size]byte, error) {
	files := map[string][sha256.Size]byte{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				if path == root && errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			if entry.IsDir() {
				return nil
			}
			data, err := os.ReadFile(path)
			files[path] = sha256.Sum256(data)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", root, err)
		}
	}
	return files, nil
}

// difference returns the sorted paths that were added, removed or changed.
func difference(before, after map[string][sha256.Size]byte) []string {
	var changed []string
	for path, hash := range after {
		if old, ok := before[path]; !ok || old != hash {
			changed = append(changed, path)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed
}
