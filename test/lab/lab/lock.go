package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// locked runs f while no other program changes the lab. It waits for the lock as long as the context allows. The lock
// ends with the process that holds it.
func (l *Lab) locked(ctx context.Context, f func() error) error {
	var file *os.File
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		var err error
		file, err = tryLock(l.lockPath())
		return file != nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for the lab's lock %s, which another lab command holds: %w", l.lockPath(), err)
	}
	defer file.Close() //nolint:errcheck // releases the lock
	return f()
}

// lockPath lies beside the state directory, which `down --purge` removes.
func (l *Lab) lockPath() string { return l.state + ".lock" }

// tryLock gives the locked file, or nil when another process has it.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		// The file may have been removed by its last holder between the two calls.
		var held, named unix.Stat_t
		if unix.Fstat(int(file.Fd()), &held) == nil && unix.Stat(path, &named) == nil && held.Ino == named.Ino {
			return file, nil
		}
		err = unix.EWOULDBLOCK
	}
	_ = file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, err
}
