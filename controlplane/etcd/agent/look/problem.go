package look

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
)

// problem is why a directory is Unreadable.
type problem struct {
	reason  facts.Reason
	message string
}

// Error implements error.
func (p *problem) Error() string { return p.message }

func problemf(reason facts.Reason, format string, args ...any) error {
	return &problem{reason, fmt.Errorf(format, args...).Error()}
}

// damage is an error of a file that is damaged, unless the file could not be read at all.
func damage(reason facts.Reason, path string, err error) error {
	var known *problem
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrPermission):
		return notPermitted(path, err)
	case errors.Is(err, syscall.EIO):
		return problemf(facts.DiskFails, "the disk gives errors: %w; look for others in the kernel's log of the host node, and replace the disk", err)
	}
	switch reason {
	case facts.LogDamaged:
		return problemf(reason, "the log is damaged: %s: %w", path, err)
	case facts.DatabaseDamaged:
		return problemf(reason, "the database is damaged: %s: %w", path, err)
	}
	return problemf(reason, "%s: %w", path, err)
}

// notPermitted says whose the file is, and who tried.
func notPermitted(path string, err error) error {
	owner := ""
	if info, statErr := os.Stat(path); statErr == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			owner = fmt.Sprintf(": it belongs to user %d and group %d with mode %s", stat.Uid, stat.Gid, info.Mode())
		}
	}
	return problemf(facts.NotPermitted, "user %d, group %d may not read and write %s%s; change its owner: %w", os.Getuid(), os.Getgid(), path, owner, err)
}

// allowed reports that this user may do with a file or folder what etcd has to. Prepare's mount of the volume may be read-only,
// and etcd's is not: where only the mount forbids to write, the file's owner and mode decide.
func allowed(path string, folder bool) error {
	mode := uint32(unix.R_OK | unix.W_OK)
	if folder {
		mode |= unix.X_OK
	}
	err := unix.Access(path, mode)
	if errors.Is(err, unix.EROFS) {
		if frozen(path) {
			return problemf(facts.NotPermitted, "%s is on a file system that can only be read: look for errors of its disk in the kernel's log of the host node", path)
		}
		if err = unix.Access(path, mode&^unix.W_OK); err == nil {
			err = writable(path)
		}
	}
	if err == nil {
		return nil
	}
	return damage(facts.Unknown, path, err)
}

// recovered turns a panic of etcd's packages into an error.
func recovered(reason facts.Reason, path string, err *error) {
	if value := recover(); value != nil {
		*err = damage(reason, path, fmt.Errorf("%v", value))
	}
}
