package store

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

// ErrLocked means that another run is under way.
var ErrLocked = errors.New("another run of kok-software is under way on this machine; wait until it ends")

// Lock keeps other runs away until it is released, or the process ends.
func Lock(d *disk.Disk) (release func(), err error) {
	if err := os.MkdirAll(d.Place(software.Dir), 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", software.Dir, d.Full(software.Dir, err))
	}
	folder, err := os.Open(d.Place(software.Dir))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = folder.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", software.Dir, err)
	}
	return func() { _ = folder.Close() }, nil
}
