package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Directory is a store in a folder of a volume.
type Directory struct {
	root *os.Root
	path string
	// field is that of the volume: perMember or claimName.
	field string
}

// Fields of the volumes.
const (
	FieldPerMember = "perMember"
	FieldClaimName = "claimName"
)

// partial begins the names of files that are still being written.
const partial = ".partial-"

var errNoFile = errors.New("it is no file, but a link or something else: remove it")

// OpenDirectory opens a folder that is there. The field names its volume in messages.
func OpenDirectory(path, field string) (*Directory, error) {
	d := &Directory{path: path, field: field}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, d.problem("open", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 || !info.IsDir() {
		return nil, &Problem{Field: field, Message: path + " is no folder: name the folder itself, not a link to it"}
	}
	if d.root, err = os.OpenRoot(path); err != nil {
		return nil, d.problem("open", err)
	}
	return d, nil
}

// Close ends the use of the folder.
func (d *Directory) Close() error { return d.root.Close() }

// problem says what a person can do for an error of the kernel.
func (d *Directory) problem(what string, err error) error {
	message := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		message = "the volume is full: make it larger, or keep fewer snapshots (spec.etcd.backup.keep)"
	case errors.Is(err, syscall.EROFS):
		message = "the volume can only be read: mount it for writing; if it is, look for errors of its disk in the kernel's log of the host node"
	case errors.Is(err, fs.ErrPermission):
		message = fmt.Sprintf("user %d, group %d may not write the volume: change its owner, or take a storage class that follows fsGroup", os.Getuid(), os.Getgid())
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		message = "the volume gives errors: look at its disk or its file server"
	case errors.Is(err, fs.ErrNotExist) && what == "open" && d.field == FieldPerMember:
		message = d.path + " is not there: the StatefulSet of the members was made without volumes for snapshots; store snapshots in a bucket or in a claim (s3, claimName)"
	case errors.Is(err, fs.ErrNotExist) && what == "open":
		message = d.path + " is not there: mount the volume"
	default:
		return fmt.Errorf("%s in %s: %w", what, d.path, err)
	}
	return &Problem{Field: d.field, Message: message, Err: err}
}

// Put implements Store.
func (d *Directory) Put(ctx context.Context, name string, content io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := d.root.Lstat(name); err == nil {
		return fmt.Errorf("write %s in %s: %w", name, d.path, ErrExists)
	}
	d.clear()
	temporary := partial + rand.Text()
	err := d.write(temporary, whilst{ctx, content})
	if err == nil {
		err = d.publish(temporary, name)
	}
	if err != nil {
		_ = d.root.Remove(temporary)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write %s in %s: %w", name, d.path, ErrExists)
		}
		return d.problem("write "+name, err)
	}
	return nil
}

// write makes a new file, which is on the disk when it returns.
func (d *Directory) write(name string, content io.Reader) error {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Sync(), file.Close())
}

// publish gives a whole file its name, unless there is one of that name.
func (d *Directory) publish(temporary, name string) error {
	folder, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // It was only synced.
	if err := renameNew(d.root, folder, temporary, name); err != nil {
		return err
	}
	return folder.Sync()
}

// linkNew renames a file by a link, which never replaces what is there.
func linkNew(root *os.Root, from, to string) error {
	if err := root.Link(from, to); err != nil {
		return err
	}
	return root.Remove(from)
}

// clear removes what uploads left that were cut off.
func (d *Directory) clear() {
	entries, err := d.entries()
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), partial) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > stale {
			_ = d.root.Remove(entry.Name())
		}
	}
}

func (d *Directory) entries() ([]fs.DirEntry, error) {
	folder, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close() //nolint:errcheck // It was only read.
	entries, err := folder.ReadDir(maxObjects + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxObjects {
		return nil, &Problem{Field: d.field, Message: fmt.Sprintf("%s has more than %d files: give snapshots a volume of their own", d.path, maxObjects)}
	}
	return entries, nil
}

// Get implements Store.
func (d *Directory) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	named, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s in %s: %w", name, d.path, ErrNotFound)
	}
	if err == nil && !named.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		return nil, d.problem("read "+name, err)
	}
	// Somebody may put a link or a pipe there meanwhile: a pipe would not even open.
	file, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.problem("read "+name, err)
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = errNoFile
	}
	if err != nil {
		_ = file.Close()
		return nil, d.problem("read "+name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{whilst{ctx, file}, file}, nil
}

// List implements Store. It lists regular files alone.
func (d *Directory) List(context.Context) ([]Object, error) {
	entries, err := d.entries()
	if err != nil {
		return nil, d.problem("list", err)
	}
	var objects []Object
	for _, entry := range entries {
		if !entry.Type().IsRegular() || checkName(entry.Name()) != nil {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // Another one deleted it meanwhile.
		}
		if err != nil {
			return nil, d.problem("list", err)
		}
		objects = append(objects, Object{Name: entry.Name(), Bytes: info.Size(), Modified: info.ModTime()})
	}
	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	return objects, nil
}

// Delete implements Store.
func (d *Directory) Delete(_ context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	info, err := d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		err = errors.New("it is a folder")
	}
	if err == nil {
		err = d.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.problem("delete "+name, err)
	}
	return d.sync()
}

func (d *Directory) sync() error {
	folder, err := d.root.Open(".")
	if err != nil {
		return d.problem("sync", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return d.problem("sync", err)
	}
	return nil
}

// Check implements Store.
func (d *Directory) Check(ctx context.Context) error {
	if err := d.Put(ctx, probe, strings.NewReader(probe)); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	if _, err := d.List(ctx); err != nil {
		return err
	}
	return d.Delete(ctx, probe)
}

// String names the store for people.
func (d *Directory) String() string { return filepath.Clean(d.path) }
