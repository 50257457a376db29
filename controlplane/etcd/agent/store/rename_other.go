//go:build !linux

package store

import "os"

// renameNew renames a file of a folder, unless there is one of the new name: then the error is os.ErrExist.
func renameNew(root *os.Root, _ *os.File, from, to string) error { return linkNew(root, from, to) }
