package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// logBytes is the room for etcd's log: two files, and some more.
const logBytes = 160 << 20

// needed is the room that it takes to restore a snapshot: what etcd sent, the database, and a log.
func needed(m archive.Manifest) int64 { return 2*m.Plain.Bytes + logBytes }

// room fails where the file system of a folder has too little for what is done there.
func room(folder string, need int64, what string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return fmt.Errorf("ask for the room of %s: %w", folder, err)
	}
	free := int64(s.Bavail) * s.Bsize //nolint:gosec,unconvert // It is not negative; types differ by architecture.
	if free < need {
		return fmt.Errorf("%s has %d bytes of room, and %d are needed %s: make room for %d bytes", folder, free, need, what, need-free)
	}
	return nil
}

// syncTree writes a folder and all that is in it to the disk.
func syncTree(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		return syncFile(path)
	})
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
