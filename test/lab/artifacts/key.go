package artifacts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// key returns a short name for a list of inputs. Each part is hashed with its length, so that moving a character from
// one part to the next gives another key.
func key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s;", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// treeKey returns a key over the names, modes and content of all files below root but tests.
func treeKey(root string) (string, error) {
	return fsKey(os.DirFS(root))
}

func fsKey(files fs.FS) (string, error) {
	var parts []string
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		executable := fmt.Sprint(info.Mode().Perm()&0o100 != 0)
		parts = append(parts, path, executable, string(data))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash the files of a recipe: %w", err)
	}
	return key(parts...), nil
}

// exists reports whether a finished artifact is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
