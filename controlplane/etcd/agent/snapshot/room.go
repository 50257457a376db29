package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// needed is the room that it takes to restore a snapshot.
func needed(m archive.Manifest) int64 { return backup.RestoreBytes(m.Plain.Bytes) }

// room fails where the file system of a folder has too little for what is done there.
func room(folder string, need int64, what string) error {
	free, err := FreeBytes(folder)
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("%s has %d bytes of room, and %d are needed %s: make room for %d bytes", folder, free, need, what, need-free)
	}
	return nil
}

// FreeBytes is the room that the file system of a folder has for more.
func FreeBytes(folder string) (int64, error) {
	var found unix.Statfs_t
	if err := unix.Statfs(folder, &found); err != nil {
		return 0, fmt.Errorf("look how much room %s has: %w", folder, err)
	}
	return int64(min(found.Bavail, 1<<40)) * int64(found.Bsize), nil //nolint:gosec,unconvert // Far from the ends; types differ by architecture.
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
