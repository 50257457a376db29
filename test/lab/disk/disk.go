package disk

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Options say what is covered.
type Options struct {
	// Directory holds what is on the disk, as this process sees it.
	Directory string
	// At is the directory that is covered, as it is called where In stands.
	At string
	// In calls a function on a thread that stands in the mount namespace of those who use the disk.
	In func(func() error) error
}

// Disk covers a directory until it is closed or loses its power.
type Disk struct {
	options    Options
	server     *fuse.Server
	connection uint32

	// power is held by everything that is done to the disk; who takes it away waits for them.
	power sync.RWMutex
	off   bool

	lock sync.Mutex
	// unsynced are files with changes that were not synced.
	unsynced map[*node]bool
	// slow is how much longer each write and each sync takes. trouble is what they come to; zero when they succeed.
	slow    time.Duration
	trouble syscall.Errno
}

// Cover covers a directory with a disk that has no trouble.
func Cover(o Options) (*Disk, error) {
	d := &Disk{options: o, unsynced: map[*node]bool{}}
	if err := d.mount(); err != nil {
		return nil, fmt.Errorf("cover %s by a disk that can fail: %w", o.At, err)
	}
	return d, nil
}

// Slow has each write and each sync take so much longer.
func (d *Disk) Slow(longer time.Duration) { d.set(longer, 0) }

// Fail has every write and every sync fail with EIO.
func (d *Disk) Fail() { d.set(0, syscall.EIO) }

// Fill leaves no room: what would write, or make a file, fails with ENOSPC.
func (d *Disk) Fill() { d.set(0, syscall.ENOSPC) }

// Mend ends what Slow, Fail and Fill began.
func (d *Disk) Mend() { d.set(0, 0) }

func (d *Disk) set(slow time.Duration, trouble syscall.Errno) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.slow, d.trouble = slow, trouble
}

// LosePower has the directory be what was synced, and no longer covered. Programs that use the disk get errors from now on.
func (d *Disk) LosePower() error {
	d.power.Lock()
	var errs []error
	if !d.off {
		for n := range d.unsynced {
			errs = append(errs, n.takeBack())
		}
	}
	d.off = true
	d.power.Unlock()
	return errors.Join(append(errs, d.uncover())...)
}

// Close uncovers the directory, which has all that was written. Programs that still use the disk get errors from now on.
func (d *Disk) Close() error {
	d.power.Lock()
	if !d.off {
		for n := range d.unsynced {
			n.keep()
		}
	}
	d.off = true
	d.power.Unlock()
	return d.uncover()
}

// change does what changes the disk, unless it has trouble.
func (d *Disk) change(do func() syscall.Errno) syscall.Errno {
	d.lock.Lock()
	slow, trouble := d.slow, d.trouble
	d.lock.Unlock()
	time.Sleep(slow) //nolint:forbidigo // Nothing is waited for: the disk is slow.
	if trouble != 0 {
		return trouble
	}
	d.power.RLock()
	defer d.power.RUnlock()
	if d.off {
		return syscall.EIO
	}
	return do()
}

// full tells whether there is no room.
func (d *Disk) full() bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.trouble == syscall.ENOSPC
}

// mount serves the directory, and covers what it is called elsewhere.
func (d *Disk) mount() error {
	var root syscall.Stat_t
	if err := syscall.Stat(d.options.Directory, &root); err != nil {
		return err
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse: %w", err)
	}
	err = d.options.In(func() error {
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device)
		if err := unix.Mount("kok-disk", d.options.At, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return err
		}
		// The attributes that the kernel has: nobody answers yet.
		var covered unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, d.options.At, unix.AT_STATX_DONT_SYNC, 0, &covered)
		d.connection = covered.Dev_minor
		return err
	})
	if err != nil {
		return errors.Join(err, unix.Close(device), d.uncover())
	}
	data := &fs.LoopbackRoot{Path: d.options.Directory, Dev: root.Dev}
	covering := &node{LoopbackNode: &fs.LoopbackNode{RootData: data}, disk: d}
	data.RootNode = covering
	options := &fs.Options{}
	d.server, err = fuse.NewServer(fs.NewNodeFS(covering, options), fmt.Sprintf("/dev/fd/%d", device), &options.MountOptions)
	if err != nil {
		return errors.Join(err, d.uncover())
	}
	go d.server.Serve()
	return nil
}

// uncover ends the connection, so that nobody waits for an answer, and takes the mount away, also from under who still uses it.
func (d *Disk) uncover() error {
	err := abort(d.connection)
	unmounted := d.options.In(func() error { return unix.Unmount(d.options.At, unix.MNT_DETACH) })
	if errors.Is(unmounted, unix.EINVAL) || errors.Is(unmounted, unix.ENOENT) {
		unmounted = nil // It went with its host.
	}
	if d.server != nil {
		d.server.Wait()
	}
	return errors.Join(err, unmounted)
}

// abort ends a connection of FUSE: every request of it fails, those under way too. One that is gone already is fine.
func abort(connection uint32) error {
	if connection == 0 {
		return nil
	}
	// The file system of connections, mounted nowhere.
	context, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open the connections of FUSE: %w", err)
	}
	defer unix.Close(context) //nolint:errcheck // only a descriptor
	if err := unix.FsconfigCreate(context); err != nil {
		return fmt.Errorf("open the connections of FUSE: %w", err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the connections of FUSE: %w", err)
	}
	defer unix.Close(mount) //nolint:errcheck // only a descriptor
	file, err := unix.Openat(mount, fmt.Sprintf("%d/abort", connection), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("abort connection %d of FUSE: %w", connection, err)
	}
	_, err = unix.Write(file, []byte("1"))
	return errors.Join(err, unix.Close(file))
}
