// Package files writes files that are complete at any moment.
package files

import (
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Replace writes a file, or another one in its place, which only its owner may read. At any moment, even after a power failure, readers find the
// former content or the new one.
func Replace(path string, content []byte) error {
	file, err := renameio.TempFile(filepath.Dir(path), path) // renameio.WriteFile keeps the mode of a file that all may read.
	if err != nil {
		return err
	}
	defer file.Cleanup() //nolint:errcheck // It does nothing after the replacement, and an error before that tells more.
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}
