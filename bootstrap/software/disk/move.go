package disk

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Move moves a file or a link, to another file system, too. It replaces what is at its new place as a whole.
func (d *Disk) Move(from, to string) error {
	if err := d.writing("move", from); err != nil {
		return err
	}
	err := os.Rename(d.Place(from), d.Place(to))
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	part := to + suffix
	if err := d.copy(from, part); err != nil {
		return err
	}
	if err := d.writing("name", to); err != nil {
		return err
	}
	if err := os.Rename(d.Place(part), d.Place(to)); err != nil {
		return err
	}
	if err := syncFolder(d.Place(to)); err != nil {
		return err
	}
	return d.Remove(from)
}

// copy copies a file or a link with its owner, mode and time.
func (d *Disk) copy(from, to string) error {
	if err := d.Remove(to); err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Lstat(d.Place(from), &stat); err != nil {
		return err
	}
	if err := d.writing("copy", to); err != nil {
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(d.Place(from))
		if err != nil {
			return err
		}
		if err := os.Symlink(target, d.Place(to)); err != nil {
			return err
		}
		return os.Lchown(d.Place(to), int(stat.Uid), int(stat.Gid))
	case unix.S_IFREG:
		return d.copyContent(from, to, &stat)
	}
	return fmt.Errorf("%s is neither a file nor a link", from)
}

func (d *Disk) copyContent(from, to string, stat *unix.Stat_t) error {
	source, err := os.Open(d.Place(from))
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(d.Place(to), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	err = errors.Join(err, target.Chown(int(stat.Uid), int(stat.Gid)), unix.Fchmod(int(target.Fd()), stat.Mode&0o7777), target.Sync(), target.Close())
	if err != nil {
		return err
	}
	times := []unix.Timespec{stat.Atim, stat.Mtim}
	return unix.UtimesNanoAt(unix.AT_FDCWD, d.Place(to), times, 0)
}
