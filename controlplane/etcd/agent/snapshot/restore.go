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

// Target is the only member of the cluster that is founded from a snapshot, or from a survivor. Others join it later.
type Target struct {
	// DataDir is made where it is not there.
	DataDir string
	// Name and PeerURL are those of the member, as in its configuration.
	Name, PeerURL string
	// Token is one that no cluster had before: a member that comes back from the old cluster does not join the new one.
	Token string
	// Highest is a revision that no former cluster of the tenant went beyond, as far as that is known.
	Highest int64
	// Expected is what the snapshot has to be of; a survivor is not asked.
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

// unfinished is the folder in a data directory that data are made in. etcd takes no notice of it.
const unfinished = ".kok-restore"

// Restore makes the data of a member in a data directory without any. They are there whole, or not at all.
func (r Reader) Restore(ctx context.Context, e Entry, t Target) (Restored, error) {
	if err := e.Usable(t.Expected); err != nil {
		return Restored{}, err
	}
	if !e.Verified() && !t.NotVerified {
		return Restored{}, fmt.Errorf("restore the snapshot %s: %w", archive.SlotName(e.Slot), ErrNotVerified)
	}
	return t.fill(needed(e.Manifest), "to restore snapshot "+archive.SlotName(e.Slot), func(work string) (Restored, error) {
		plain := filepath.Join(work, plainFile)
		if err := fetch(ctx, r.Store, e.Manifest, r.Identities, plain); err != nil {
			return Restored{}, err
		}
		return t.place(ctx, r.Program, plain, e.Manifest.Object, e.Manifest.Revision)
	})
}

// fill has the data made in a folder that is deleted in the end, if the data directory has none and there is room.
func (t Target) fill(need int64, what string, do func(work string) (Restored, error)) (restored Restored, err error) {
	if err := t.check(); err != nil {
		return Restored{}, err
	}
	if err := os.MkdirAll(t.DataDir, 0o700); err != nil {
		return Restored{}, fmt.Errorf("make the data of a member: %w", err)
	}
	lock, err := locked(t.DataDir)
	if err != nil {
		return Restored{}, err
	}
	defer lock.Close() //nolint:errcheck // It ends with the program anyhow.
	if err := empty(t.DataDir); err != nil {
		return Restored{}, err
	}
	work, err := filepath.Abs(filepath.Join(t.DataDir, unfinished))
	if err != nil {
		return Restored{}, err
	}
	if err := os.RemoveAll(work); err != nil {
		return Restored{}, fmt.Errorf("remove what was left unfinished: %w", err)
	}
	if err := room(t.DataDir, need, what); err != nil {
		return Restored{}, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return Restored{}, fmt.Errorf("make the data of a member: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	return do(work)
}

func (t Target) check() error {
	if t.Name == "" || t.PeerURL == "" || t.Token == "" {
		return errors.New("make the data of a member: the name of the member, its peer URL and the token of the cluster are needed")
	}
	if _, err := types.NewURLsMap(t.Name + "=" + t.PeerURL); err != nil {
		return fmt.Errorf("make the data of a member: the name of the member or its peer URL is wrong: %w", err)
	}
	return nil
}

// plainFile has what etcd sent.
const plainFile = "snapshot.db"

// place makes the data of what etcd sent, in the folder of that file, and puts them in their place. They must not be older than a
// revision.
func (t Target) place(ctx context.Context, program Program, plain, object string, revision int64) (Restored, error) {
	data := filepath.Join(filepath.Dir(plain), "data")
	made, err := program.carryOut(ctx, order{Plain: plain, Dir: data, Name: t.Name, PeerURL: t.PeerURL, Token: t.Token, Bump: true, Highest: t.Highest}, object)
	if err != nil {
		return Restored{}, err
	}
	if made.Revision < revision {
		return Restored{}, archive.Refuse(archive.HashDiffers, "%s has revision %d, and the member had %d: take another snapshot", object, made.Revision, revision)
	}
	if err := syncTree(data); err != nil {
		return Restored{}, fmt.Errorf("write the data to the disk: %w", err)
	}
	const member = "member"
	if err := os.Rename(filepath.Join(data, member), filepath.Join(t.DataDir, member)); err != nil {
		return Restored{}, fmt.Errorf("put the data in their place: %w", err)
	}
	return Restored{Snapshot: made.Revision, Revision: made.Raised}, errors.Join(syncFile(t.DataDir), syncFile(filepath.Dir(t.DataDir)))
}

// empty is an error where a data directory has anything but what file systems and this program leave.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("make the data of a member: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != unfinished && name != "lost+found" {
			return fmt.Errorf("make the data of a member: %s has %s: %w", dir, name, ErrHasData)
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
