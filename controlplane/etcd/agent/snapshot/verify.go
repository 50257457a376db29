package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// Reader is what it takes to read a snapshot.
type Reader struct {
	Store      store.Store
	Key        archive.Key
	Identities []age.Identity
	// Program restores in a child process.
	Program Program
}

// Verify restores a snapshot as a trial in a folder with room for it, and records that it is what its member had. The program
// of etcd should have the version of the member.
func (r Reader) Verify(ctx context.Context, e Entry, etcd, folder string) (archive.Verification, error) {
	version, err := VersionOf(ctx, etcd)
	if err != nil {
		return archive.Verification{}, err
	}
	if err := e.Usable(archive.Expected{EtcdVersion: version}); err != nil {
		return archive.Verification{}, err
	}
	if err := room(folder, needed(e.Manifest), "to restore snapshot "+archive.SlotName(e.Slot)); err != nil {
		return archive.Verification{}, err
	}
	// etcd is started in the folder of the trial.
	if etcd, err = filepath.Abs(etcd); err != nil {
		return archive.Verification{}, err
	}
	v, err := r.try(ctx, e.Manifest, etcd, folder)
	if err != nil {
		return archive.Verification{}, err
	}
	v.Manifest, v.Verified = archive.HashOf(e.File), time.Now().UTC().Truncate(time.Second)
	return v, r.record(ctx, e, v)
}

// scratchFolders are what a trial that was killed leaves.
const scratchFolders = "kok-trial-"

func (r Reader) try(ctx context.Context, m archive.Manifest, etcd, folder string) (v archive.Verification, err error) {
	if err := clearTrials(folder); err != nil {
		return v, err
	}
	scratch, err := os.MkdirTemp(folder, scratchFolders)
	if err != nil {
		return v, fmt.Errorf("make a folder for the trial: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	lock, err := locked(scratch)
	if err != nil {
		return v, err
	}
	defer lock.Close() //nolint:errcheck // It ends with the program anyhow.
	if scratch, err = filepath.Abs(scratch); err != nil {
		return v, err
	}
	plain, data := filepath.Join(scratch, "snapshot.db"), filepath.Join(scratch, "data")
	if err := fetch(ctx, r.Store, m, r.Identities, plain); err != nil {
		return v, err
	}
	if _, err := r.Program.carryOut(ctx, order{Plain: plain, Dir: data, Name: trialName, PeerURL: peerURL, Token: scratch}, m.Object); err != nil {
		return v, err
	}
	if err := os.Remove(plain); err != nil {
		return v, err
	}
	t, err := startTrial(etcd, scratch, data)
	if err != nil {
		return v, err
	}
	defer t.end()
	return t.compare(ctx, m)
}

// clearTrials removes folders whose program is gone.
func clearTrials(folder string) error {
	left, err := filepath.Glob(filepath.Join(folder, scratchFolders+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		lock, err := locked(path)
		if err != nil {
			continue // It is in use.
		}
		if err := errors.Join(os.RemoveAll(path), lock.Close()); err != nil {
			return fmt.Errorf("remove what a trial left: %w", err)
		}
	}
	return nil
}

// record writes the verification, in place of one that is wrong.
func (r Reader) record(ctx context.Context, e Entry, v archive.Verification) error {
	file, err := r.Key.SignVerification(v)
	if err != nil {
		return err
	}
	name := archive.VerificationName(e.Slot)
	err = publish(ctx, r.Store, name, file)
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	there, err := listing.ReadFile(ctx, r.Store, name)
	if err != nil {
		return err
	}
	if _, err := r.Key.ReadVerification(name, there, e.File); err == nil {
		return nil
	}
	if err := r.Store.Delete(ctx, name); err != nil {
		return err
	}
	return publish(ctx, r.Store, name, file)
}
