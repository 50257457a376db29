// Package disk writes to the disk of a machine so that a program may be killed between any two writes: a file is there
// as a whole or not at all.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is the disk of a machine. Paths are those of the machine.
type Disk struct {
	// Root is the root directory of the machine: "/", or another one in tests.
	Root string
	// Writing is told each write before it is done, and prevents it with an error. It is for tests.
	Writing func(operation string) error
}

// suffix is that of a file that is not complete.
const suffix = ".kok-software-part"

// Place is where a path of the machine is for this program.
func (d *Disk) Place(path string) string { return filepath.Join(d.Root, path) }

func (d *Disk) writing(operation, path string) error {
	if d.Writing == nil {
		return nil
	}
	return d.Writing(operation + " " + path)
}

// Exists says whether something is at the path, be it a link to nothing.
func (d *Disk) Exists(path string) (bool, error) {
	_, err := os.Lstat(d.Place(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// MissingFolders are a folder and those above it that are not there, the highest first.
func (d *Disk) MissingFolders(folder string) ([]string, error) {
	var missing []string
	for ; folder != "/" && folder != "."; folder = filepath.Dir(folder) {
		_, err := os.Stat(d.Place(folder))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = append([]string{folder}, missing...)
	}
	return missing, nil
}

// MakeFolder makes a folder and those above it.
func (d *Disk) MakeFolder(folder string) error {
	if info, err := os.Stat(d.Place(folder)); err == nil && info.IsDir() {
		return nil
	}
	if err := d.writing("make folder", folder); err != nil {
		return err
	}
	return os.MkdirAll(d.Place(folder), 0o755)
}

// RemoveFolder removes a folder if it is empty, and says whether it is gone.
func (d *Disk) RemoveFolder(folder string) (bool, error) {
	if there, err := d.Exists(folder); err != nil || !there {
		return !there, err
	}
	if err := d.writing("remove folder", folder); err != nil {
		return false, err
	}
	err := unix.Rmdir(d.Place(folder))
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// Read reads a file of at most limit bytes.
func (d *Disk) Read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(d.Place(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return data, err
}

// Write writes a file, or replaces it, as a whole.
func (d *Disk) Write(path string, content []byte, mode fs.FileMode) error {
	return d.put(path, content, mode, func(string) error { return nil })
}

// Replace writes another content into a file that is there, as a whole. The file keeps its mode and its owner.
func (d *Disk) Replace(path string, content []byte) error {
	info := unix.Stat_t{}
	if err := unix.Stat(d.Place(path), &info); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	return d.put(path, content, fs.FileMode(info.Mode).Perm(), func(part string) error { return os.Chown(part, int(info.Uid), int(info.Gid)) })
}

// put writes a file as a whole; own gives it its owner before it has its name.
func (d *Disk) put(path string, content []byte, mode fs.FileMode, own func(part string) error) error {
	if err := d.writing("write", path); err != nil {
		return err
	}
	part := d.Place(path) + suffix
	if err := writeSynced(part, content, mode); err != nil {
		return err
	}
	if err := own(part); err != nil {
		return err
	}
	if err := d.writing("name", path); err != nil {
		return err
	}
	if err := os.Rename(part, d.Place(path)); err != nil {
		return err
	}
	return syncFolder(d.Place(path))
}

// syncFolder has the name of a file survive a power cut.
func syncFolder(file string) error {
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func writeSynced(path string, content []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

// Remove removes a file, and what is left of an attempt to write it.
func (d *Disk) Remove(path string) error {
	for _, p := range []string{path, path + suffix} {
		there, err := d.Exists(p)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if err := d.writing("remove", p); err != nil {
			return err
		}
		if err := os.Remove(d.Place(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// RemoveSynced removes a file so that a power cut does not bring it back.
func (d *Disk) RemoveSynced(path string) error {
	if there, err := d.Exists(path); err != nil || !there {
		return err
	}
	if err := d.Remove(path); err != nil {
		return err
	}
	return syncFolder(d.Place(path))
}

// RemoveAll removes a folder with all that it has. A removal that is cut off may leave any part of it.
func (d *Disk) RemoveAll(path string) error {
	if there, err := d.Exists(path); err != nil || !there {
		return err
	}
	if err := d.writing("remove all of", path); err != nil {
		return err
	}
	return os.RemoveAll(d.Place(path))
}

// Rename gives a file or a folder another name in the same file system, and writes its content to the disk before.
func (d *Disk) Rename(from, to string) error {
	if err := d.Sync(from); err != nil {
		return err
	}
	if err := d.writing("rename", from); err != nil {
		return err
	}
	return os.Rename(d.Place(from), d.Place(to))
}

// Sync waits until the file system of a path is on the disk.
func (d *Disk) Sync(path string) error {
	file, err := os.Open(d.Place(path))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := unix.Syncfs(int(file.Fd())); err != nil {
		return fmt.Errorf("sync the file system of %s: %w", path, err)
	}
	return nil
}

// Link makes a link where nothing is.
func (d *Disk) Link(target, path string) error {
	if err := d.writing("link", path); err != nil {
		return err
	}
	return os.Symlink(target, d.Place(path))
}

// SwitchLink makes a link, or replaces one, by one rename.
func (d *Disk) SwitchLink(target, path string) error {
	if err := d.Remove(path + suffix); err != nil {
		return err
	}
	if err := d.Link(target, path+suffix); err != nil {
		return err
	}
	if err := d.writing("switch", path); err != nil {
		return err
	}
	if err := os.Rename(d.Place(path+suffix), d.Place(path)); err != nil {
		return err
	}
	return syncFolder(d.Place(path))
}

// Target is what a link at the path leads to. It is empty when no link is there.
func (d *Disk) Target(path string) (string, error) {
	target, err := os.Readlink(d.Place(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTDIR) {
		return "", nil
	}
	return target, err
}

// WriteInPlace writes to a file that is not a file of a disk, such as one below /proc/sys.
func (d *Disk) WriteInPlace(path string, content []byte) error {
	if err := d.writing("write", path); err != nil {
		return err
	}
	file, err := os.OpenFile(d.Place(path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// Create makes a file for a caller that writes it in pieces, below a folder that is not in use yet.
func (d *Disk) Create(path string) (*os.File, error) {
	if err := d.writing("create", path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(d.Place(path)), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(d.Place(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
