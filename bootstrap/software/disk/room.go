package disk

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// Reserve is how much of a disk is left free for others, in bytes.
const Reserve = 256 << 20

// Room refuses to write needed bytes to the file system of a path if less than Reserve was left then.
func (d *Disk) Room(path string, needed int64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(d.Place(path), &stat); err != nil {
		return fmt.Errorf("read the room at %s: %w", path, err)
	}
	free := int64(stat.Bavail) * stat.Bsize
	if free-needed < Reserve {
		return software.Problemf(software.NoRoom, "", "the disk of %s has %s free, and %s are needed beside %s that stay free. Make room there, or use a machine with a larger disk",
			path, Size(free), Size(needed), Size(Reserve))
	}
	return nil
}

// Full turns an error about a full disk into a Problem that says so.
func (d *Disk) Full(path string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return software.Problemf(software.NoRoom, "", "the disk of %s is full: %w", path, err)
	}
	return err
}

// Size is a number of bytes for people.
func Size(bytes int64) string {
	const kibi, mebi, gibi = 1 << 10, 1 << 20, 1 << 30
	switch {
	case bytes >= gibi:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/gibi)
	case bytes >= mebi:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mebi)
	case bytes >= kibi:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/kibi)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// roomStep is after how many written bytes the room is looked at again.
const roomStep = 4 << 20

// roomyWriter is a Writer to a file that leaves Reserve free.
type roomyWriter struct {
	disk    *Disk
	path    string
	target  io.Writer
	unasked int64
}

// Roomy writes to a file at a path as long as Reserve is left.
func (d *Disk) Roomy(path string, target io.Writer) io.Writer {
	return &roomyWriter{disk: d, path: path, target: target, unasked: roomStep}
}

func (w *roomyWriter) Write(p []byte) (int, error) {
	if w.unasked += int64(len(p)); w.unasked >= roomStep {
		if err := w.disk.Room(w.path, int64(len(p))); err != nil {
			return 0, err
		}
		w.unasked = 0
	}
	n, err := w.target.Write(p)
	return n, w.disk.Full(w.path, err)
}
