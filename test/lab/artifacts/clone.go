package artifacts

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// linkTree copies a tree within the cache: folders are made anew, everything in them is a hard link, which costs no
// space and no reading. Nothing may write into either tree afterwards.
func linkTree(ctx context.Context, from, to string) error {
	type folder struct {
		path string
		stat *syscall.Stat_t
	}
	var folders []folder
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if !d.IsDir() {
			return os.Link(path, target)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("no owner known of %s", path)
		}
		folders = append(folders, folder{target, stat})
		if err := os.MkdirAll(target, 0o700); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	// Deepest first: filling a folder changes its time.
	for i := len(folders) - 1; i >= 0; i-- {
		f := folders[i]
		if err := os.Chown(f.path, int(f.stat.Uid), int(f.stat.Gid)); err != nil {
			return err
		}
		if err := unix.Chmod(f.path, f.stat.Mode&0o7777); err != nil {
			return fmt.Errorf("set mode of %s: %w", f.path, err)
		}
		if err := os.Chtimes(f.path, time.Time{}, time.Unix(f.stat.Mtim.Unix())); err != nil {
			return err
		}
	}
	return nil
}
