package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file of a folder, unless there is one of the new name: then the error is os.ErrExist.
func renameNew(root *os.Root, folder *os.File, from, to string) error {
	at := int(folder.Fd()) //nolint:gosec // A file descriptor.
	err := unix.Renameat2(at, from, at, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// NFS renames in no other way than over what is there, and a link never does.
		return linkNew(root, from, to)
	}
	return err
}
