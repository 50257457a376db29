package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// Target is the only member of the cluster that a snapshot is restored into. Others join it later.
type Target struct {
	// DataDir is made where it is not there.
	DataDir string
	// Name and PeerURL are those of the member, as in its configuration.
	Name, PeerURL string
	// Token is one that no cluster had before: a member that comes back from the old cluster does not join the new one.
	Token string
	// Highest is the highest revision that the old cluster ever reported, as far as that is known.
	Highest int64
	// Expected is what the snapshot has to be of.
	Expected archive.Expected
	// NotVerified also takes a snapshot that was not restored as a trial.
	NotVerified bool
}

// Restored is what there is now.
type Restored struct {
	// Snapshot is the revision of the snapshot. Revision is the one that etcd goes on from; all before it is compacted.
	Snapshot, Revision int64
}

// ErrHasData says that a data directory is not empty.
var ErrHasData = errors.New("there are data already, which are never overwritten: name another directory, or move them away")

// unfinished is the folder in a data directory that a restore works in. etcd takes no notice of it.
const unfinished = ".kok-restore"

// Restore makes the data of a member in a data directory without any. They are there whole, or not at all.
func (r Reader) Restore(ctx context.Context, e Entry, t Target) (restored Restored, err error) {
	if err := e.Usable(t.Expected); err != nil {
		return Restored{}, err
	}
	if !e.Verified() && !t.NotVerified {
		return Restored{}, fmt.Errorf("restore the snapshot %s: %w", archive.SlotName(e.Slot), ErrNotVerified)
	}
	if t.Name == "" || t.PeerURL == "" || t.Token == "" {
		return Restored{}, errors.New("restore a snapshot: the name of the member, its peer URL and the token of the cluster are needed")
	}
	if _, err := types.NewURLsMap(t.Name + "=" + t.PeerURL); err != nil {
		return Restored{}, fmt.Errorf("restore a snapshot: the name of the member or its peer URL is wrong: %w", err)
	}
	if t.DataDir, err = filepath.Abs(t.DataDir); err != nil {
		return Restored{}, err
	}
	if err := os.MkdirAll(t.DataDir, 0o700); err != nil {
		return Restored{}, fmt.Errorf("restore a snapshot: %w", err)
	}
	lock, err := locked(t.DataDir)
	if err != nil {
		return Restored{}, err
	}
	defer lock.Close() //nolint:errcheck // It ends with the program anyhow.
	if err := empty(t.DataDir); err != nil {
		return Restored{}, err
	}
	work := filepath.Join(t.DataDir, unfinished)
	if err := os.RemoveAll(work); err != nil {
		return Restored{}, fmt.Errorf("remove what a restore left: %w", err)
	}
	if err := room(t.DataDir, e.Manifest); err != nil {
		return Restored{}, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return Restored{}, fmt.Errorf("restore a snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	return r.restoreIn(ctx, e, t, work)
}

func (r Reader) restoreIn(ctx context.Context, e Entry, t Target, work string) (Restored, error) {
	plain, data := filepath.Join(work, "snapshot.db"), filepath.Join(work, "data")
	if err := fetch(ctx, r.Store, e.Manifest, r.Identities, plain); err != nil {
		return Restored{}, err
	}
	made, err := r.Program.carryOut(ctx, order{Plain: plain, Dir: data, Name: t.Name, PeerURL: t.PeerURL, Token: t.Token, Bump: true, Highest: t.Highest}, e.Manifest.Object)
	if err != nil {
		return Restored{}, err
	}
	if made.Revision < e.Manifest.Revision {
		return Restored{}, archive.Refuse(archive.HashDiffers, "%s has revision %d, and the member had %d: take another snapshot", e.Manifest.Object, made.Revision, e.Manifest.Revision)
	}
	if err := syncTree(data); err != nil {
		return Restored{}, fmt.Errorf("write the data to the disk: %w", err)
	}
	const member = "member"
	if err := os.Rename(filepath.Join(data, member), filepath.Join(t.DataDir, member)); err != nil {
		return Restored{}, fmt.Errorf("restore a snapshot: %w", err)
	}
	return Restored{Snapshot: made.Revision, Revision: made.Raised}, errors.Join(syncFile(t.DataDir), syncFile(filepath.Dir(t.DataDir)))
}

// empty is an error where a data directory has anything but what file systems and restores leave.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != unfinished && name != "lost+found" {
			return fmt.Errorf("restore a snapshot: %s has %s: %w", dir, name, ErrHasData)
		}
	}
	return nil
}

// locked keeps other programs of this kind out of a folder until it is closed.
func locked(folder string) (*os.File, error) {
	file, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: folder, Err: err}
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { //nolint:gosec // A file descriptor.
		_ = file.Close()
		return nil, fmt.Errorf("another kok-etcd-agent works in %s: wait until it has ended: %w", folder, err)
	}
	return file, nil
}
