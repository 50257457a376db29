package disk

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or a directory of a disk.
type node struct {
	*fs.LoopbackNode
	disk *Disk

	lock sync.Mutex
	// file is open for as long as there are changes that were not synced, the last of them last.
	file    *os.File
	changes []change
}

// change is what a file had before it changed: its size, and some bytes.
type change struct {
	size, offset int64
	bytes        []byte
}

// WrapChild implements fs.NodeWrapChilder: what is in a directory of the disk is of the disk, too.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: child.(*fs.LoopbackNode), disk: n.disk}
}

// remember notes what the file has where it is about to change, until it is synced.
func (n *node) remember(offset, length int64) syscall.Errno {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.file == nil {
		file, err := os.OpenFile(filepath.Join(n.RootData.Path, n.Path(n.Root())), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			return fs.OK // A file without a name is gone after a loss of power anyway.
		}
		if err != nil {
			return fs.ToErrno(err)
		}
		n.file = file
	}
	info, err := n.file.Stat()
	if err != nil {
		return fs.ToErrno(err)
	}
	c := change{size: info.Size(), offset: offset, bytes: make([]byte, max(0, min(length, info.Size()-offset)))}
	if _, err := n.file.ReadAt(c.bytes, offset); err != nil && !errors.Is(err, io.EOF) {
		return fs.ToErrno(err)
	}
	n.changes = append(n.changes, c)
	n.disk.note(n, true)
	return fs.OK
}

// keep forgets what the file had before: that is synced now.
func (n *node) keep() {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.file != nil {
		_ = n.file.Close()
	}
	n.file, n.changes = nil, nil
	n.disk.note(n, false)
}

// takeBack has the file be what was synced.
func (n *node) takeBack() error {
	n.lock.Lock()
	var errs []error
	for _, c := range slices.Backward(n.changes) {
		_, err := n.file.WriteAt(c.bytes, c.offset)
		errs = append(errs, err, n.file.Truncate(c.size))
	}
	n.lock.Unlock()
	n.keep()
	return errors.Join(errs...)
}

// note says whether a file has changes that were not synced.
func (d *Disk) note(n *node, unsynced bool) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if unsynced {
		d.unsynced[n] = true
	} else {
		delete(d.unsynced, n)
	}
}

// sync keeps what a file, or a directory, has.
func (n *node) sync() syscall.Errno {
	return n.disk.change(func() syscall.Errno {
		n.keep()
		return fs.OK
	})
}

// Fsync is that of directories: files have their own.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return n.sync() }

// Open lets a file be written too that is only read elsewhere: what it had is read before it changes.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_TRUNC != 0 {
		if errno := n.disk.change(func() syscall.Errno { return n.remember(0, wholeFile) }); errno != 0 {
			return nil, 0, errno
		}
	}
	opened, how, errno := n.LoopbackNode.Open(ctx, flags)
	return n.handle(opened, errno), how, errno
}

// Create makes a file.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (inode *fs.Inode, made fs.FileHandle, how uint32, errno syscall.Errno) {
	errno = n.disk.change(func() (errno syscall.Errno) {
		inode, made, how, errno = n.LoopbackNode.Create(ctx, name, flags, mode, out)
		return errno
	})
	if errno != 0 {
		return nil, nil, 0, errno
	}
	child := inode.Operations().(*node) //nolint:forcetypeassert // newNode makes no others.
	return inode, child.handle(made, errno), how, errno
}

// Mkdir makes a directory.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (made *fs.Inode, errno syscall.Errno) {
	errno = n.disk.change(func() (errno syscall.Errno) {
		made, errno = n.LoopbackNode.Mkdir(ctx, name, mode, out)
		return errno
	})
	return made, errno
}

// Setattr cuts a file, among other things.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, cut := in.GetSize()
	if !cut {
		return n.LoopbackNode.Setattr(ctx, f, in, out)
	}
	return n.disk.change(func() syscall.Errno {
		if errno := n.remember(int64(size), wholeFile); errno != 0 { //nolint:gosec // No file is as long.
			return errno
		}
		return n.LoopbackNode.Setattr(ctx, f, in, out)
	})
}

// Statfs tells how much room there is.
func (n *node) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	errno := n.LoopbackNode.Statfs(ctx, out)
	if n.disk.full() {
		out.Bfree, out.Bavail = 0, 0
	}
	return errno
}

// wholeFile is longer than any file.
const wholeFile = 1 << 40

// handle is an open file.
type handle struct {
	*fs.LoopbackFile
	node *node
}

func (n *node) handle(opened fs.FileHandle, errno syscall.Errno) fs.FileHandle {
	if errno != 0 {
		return nil
	}
	return &handle{opened.(*fs.LoopbackFile), n} //nolint:forcetypeassert // LoopbackNode opens no others.
}

// PassthroughFd has the kernel ask for each write.
func (h *handle) PassthroughFd() (int, bool) { return 0, false }

// Write writes.
func (h *handle) Write(ctx context.Context, data []byte, offset int64) (written uint32, errno syscall.Errno) {
	errno = h.node.disk.change(func() (errno syscall.Errno) {
		if errno = h.node.remember(offset, int64(len(data))); errno == 0 {
			written, errno = h.LoopbackFile.Write(ctx, data, offset)
		}
		return errno
	})
	return written, errno
}

// Allocate makes room in a file.
func (h *handle) Allocate(ctx context.Context, offset, size uint64, mode uint32) syscall.Errno {
	return h.node.disk.change(func() syscall.Errno {
		if errno := h.node.remember(int64(offset), int64(size)); errno != 0 { //nolint:gosec // No file is as long.
			return errno
		}
		return h.LoopbackFile.Allocate(ctx, offset, size, mode)
	})
}
