package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CloneContainerd gives a host a copy of a stopped containerd's directory, images unpacked, within a second: blobs and
// snapshots never change once written and become hard links, databases (*.db) are copied. Across file systems all is
// copied. It is done before the host's containerd starts; a host that has been given one already keeps it.
func (h *Host) CloneContainerd(golden string) error {
	return h.Fill("/var/lib/containerd", func(directory string) error { return cloneTree(golden, directory) })
}

// cloneTree copies a tree with owners, modes and extended attributes.
func cloneTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
		case entry.IsDir():
			return cloneDirectory(path, target)
		case entry.Type().IsRegular() && strings.HasSuffix(path, ".db"):
			return copyFile(path, target)
		case entry.Type()&fs.ModeSocket != 0:
			return nil
		}
		err = os.Link(path, target)
		switch {
		case !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK):
			return err
		case entry.Type().IsRegular():
			return copyFile(path, target)
		case entry.Type()&fs.ModeSymlink != 0:
			link, readErr := os.Readlink(path)
			return errors.Join(readErr, os.Symlink(link, target))
		}
		return err
	})
}

func cloneDirectory(from, to string) error {
	var st unix.Stat_t
	if err := unix.Stat(from, &st); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := unix.Chmod(to, st.Mode&0o7777); err != nil {
		return err
	}
	return cloneAttributes(from, to)
}

// cloneAttributes copies extended attributes: an overlay's opaque directories are marked by one.
func cloneAttributes(from, to string) error {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(from, names)
	if err != nil || n == 0 {
		return err
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 65536)
		n, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(to, name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(st.Mode&0o777))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chown(int(st.Uid), int(st.Gid)), out.Close())
}
