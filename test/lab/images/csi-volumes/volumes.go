package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// largest is the size, in bytes, above which no volume is made and none grows: it stands for storage that has no more.
const largest = 8 << 30

// volumes are those of one node, a directory for each, on which its tmpfs is mounted.
type volumes struct{ directory string }

func (v volumes) path(id string) (string, error) {
	if !filepath.IsLocal(id) || filepath.Base(id) != id || id == "." {
		return "", fmt.Errorf("%q is no ID of a volume", id)
	}
	return filepath.Join(v.directory, id), nil
}

// find is the directory of a volume that is there.
func (v volumes) find(id string) (string, error) {
	path, err := v.path(id)
	if err != nil {
		return "", err
	}
	mounted, err := isTmpfs(path)
	if err == nil && !mounted {
		err = fmt.Errorf("volume %s is not there: its node has lost power since it was made", id)
	}
	return path, err
}

// create makes a volume of so many bytes. One that is there stays as it is.
func (v volumes) create(id string, size int64) error {
	path, err := v.path(id)
	if err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if mounted, err := isTmpfs(path); mounted || err != nil {
		return err
	}
	// Any user may run in the pod.
	return unix.Mount(driverName, path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0777", size))
}

// remove removes a volume with its data. One that is not there is as good.
func (v volumes) remove(id string) error {
	path, err := v.path(id)
	if err != nil {
		return err
	}
	if err := unmount(path); err != nil {
		return err
	}
	return removeEmpty(path)
}

// grow gives a volume so many bytes, while pods use it. One that has as many already stays as it is.
func (v volumes) grow(id string, size int64) error {
	path, err := v.find(id)
	if err != nil {
		return err
	}
	found := unix.Statfs_t{}
	if err := unix.Statfs(path, &found); err != nil {
		return err
	}
	if int64(found.Blocks)*found.Bsize >= size {
		return nil
	}
	return unix.Mount(driverName, path, "tmpfs", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d", size))
}

// publish shows a volume at a path, for a pod.
func (v volumes) publish(id, at string) error {
	path, err := v.find(id)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		return err
	}
	if shown, err := isTmpfs(at); shown || err != nil {
		return err
	}
	return unix.Mount(path, at, "", unix.MS_BIND, "")
}

// unpublish takes a volume away from a path.
func unpublish(at string) error {
	if err := unmount(at); err != nil {
		return err
	}
	return removeEmpty(at)
}

// unmount unmounts what is mounted on a path, if anything is. The path may be gone.
func unmount(path string) error {
	for {
		mounted, err := isTmpfs(path)
		if !mounted || err != nil {
			return err
		}
		if err := unix.Unmount(path, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

func removeEmpty(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isTmpfs reports whether a volume is mounted on a path: directories of kubelet are on another file system.
func isTmpfs(path string) (bool, error) {
	found := unix.Statfs_t{}
	switch err := unix.Statfs(path, &found); {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look at %s: %w", path, err)
	}
	return found.Type == unix.TMPFS_MAGIC, nil
}
