package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/mounted"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// session is what a round works with: the files of the Secret, and the store that they name.
type session struct {
	folder mounted.Folder
	config backup.Config
	store  mounted.Store
	reader snapshot.Reader
	// id differs for other stores, other keys and other tenants, keyID for other keys.
	id, keyID string
}

// open reads the files and opens the store. It asks no server.
func (a *agent) open() (s session, err error) {
	if s.folder, err = mounted.OpenFolder(a.ConfigDir); err != nil {
		return s, err
	}
	if s.config, err = s.folder.Config(); err != nil {
		return s, err
	}
	if s.store, err = s.folder.Store(s.config.Store, a.StoreDir); err != nil {
		return s, err
	}
	if s.reader, err = s.folder.Reader(s.store, a.Program); err != nil {
		s.store.Close()
		return s, err
	}
	s.keyID = s.folder.KeyID()
	s.id = fmt.Sprint(s.store.Store, " ", s.keyID, " ", s.config.Cluster.UID)
	return s, nil
}

// workTimeout bounds one step.
const workTimeout = time.Hour

// carryOut takes a step.
func (a *agent) carryOut(ctx context.Context, s session, do step) error {
	a.setWorking(do.slot)
	defer a.setWorking(time.Time{})
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	if do.do == remove {
		return a.remove(ctx, s, do.entry)
	}
	err := a.toVerified(ctx, s, do)
	if errors.Is(err, store.ErrExists) {
		return nil // Another member took it, and verifies it.
	}
	// A failed step prunes as well: when a person lowers spec.etcd.backup.keep, a full store gets room.
	a.prune(ctx, s)
	return err
}

// toVerified takes a snapshot if that is the step, and verifies it.
func (a *agent) toVerified(ctx context.Context, s session, do step) (err error) {
	if do.do == take {
		if err := a.take(ctx, s, do.slot); err != nil {
			return err
		}
		if do.entry, err = snapshot.Find(ctx, s.store, s.reader.Key, do.slot); err != nil {
			return err
		}
	}
	return a.verify(ctx, s, do.entry)
}

func (a *agent) take(ctx context.Context, s session, slot time.Time) error {
	recipients, err := archive.ParseRecipients(s.config.Recipients)
	if err != nil {
		return &store.Problem{Field: fieldRecipients, Message: err.Error()}
	}
	if err := a.storeKeys(ctx, s); err != nil {
		return err
	}
	files, err := a.Client.Config()
	if err != nil {
		return err
	}
	member, err := snapshot.Dial(a.Endpoint, files)
	if err != nil {
		return err
	}
	defer member.Close() //nolint:errcheck // It was only read.
	c := s.config.Cluster
	m, err := snapshot.Take(ctx, member, s.store, snapshot.Options{
		Cluster: archive.Cluster{Namespace: c.Namespace, Name: c.Name, UID: c.UID}, Member: a.Member, EncryptionKeyID: s.config.EncryptionKeyID,
		Slot: slot, Recipients: recipients, Key: s.reader.Key,
	})
	if err == nil {
		a.Log.Info("a snapshot is stored", "snapshot", archive.SlotName(slot), "revision", m.Revision, "bytes", m.Encrypted.Bytes)
	}
	return err
}

// storeKeys stores the tenant's key material beside its snapshots, unless it is there: somebody may have deleted it since.
func (a *agent) storeKeys(ctx context.Context, s session) error {
	id := s.config.KeysID
	if id == "" {
		return nil
	}
	name, err := archive.KeysName(id)
	if err != nil {
		return err
	}
	keys, err := s.folder.Keys()
	if err != nil {
		return fmt.Errorf("store the tenant's key material: %w", err)
	}
	switch err := s.store.Put(ctx, name, bytes.NewReader(keys)); {
	case err == nil:
		a.Log.Info("the tenant's key material is stored", "object", name)
	case !errors.Is(err, store.ErrExists):
		return err
	}
	return nil
}

// verify restores a snapshot as a trial. What it refuses is not tried again.
func (a *agent) verify(ctx context.Context, s session, e snapshot.Entry) error {
	if need, room := backup.RestoreBytes(e.Manifest.Plain.Bytes), backup.TrialBytes(a.Quota); need > room {
		return fmt.Errorf("the trial of the snapshot %s needs %d MiB, and the quota of the database leaves it %d: set spec.etcd.data.quotaBackendSize to %dMi or more",
			archive.SlotName(e.Slot), need>>20, room>>20, e.Manifest.Plain.Bytes>>20+1)
	}
	etcd, err := exec.LookPath(a.Etcd)
	if err != nil {
		return fmt.Errorf("find the program of etcd: %w", err)
	}
	v, err := s.reader.Verify(ctx, e, etcd, a.Scratch)
	if archive.ReasonOf(err) != "" {
		a.refused(e.Slot, err)
	}
	if err != nil {
		return err
	}
	a.Log.Info("a snapshot is verified", "snapshot", archive.SlotName(e.Slot), "revision", v.Revision, "etcd", v.EtcdVersion)
	return nil
}

// remove deletes a snapshot that a person does not want any more.
func (a *agent) remove(ctx context.Context, s session, e snapshot.Entry) error {
	deletes := snapshot.Delete
	if e.Err != nil {
		deletes = snapshot.DeleteRefused
	}
	if err := deletes(ctx, s.store, e); err != nil {
		return err
	}
	a.Log.Info("a snapshot is deleted, for a person asked for it", "snapshot", archive.SlotName(e.Slot))
	a.lock.Lock()
	defer a.lock.Unlock()
	delete(a.unwanted, e.Slot.UTC())
	return nil
}

// prune deletes what expired. Where it fails it is tried again after the next step.
func (a *agent) prune(ctx context.Context, s session) {
	keep := s.config.Keep
	gone, err := snapshot.Prune(ctx, s.store, s.reader.Key, s.config.Cluster.UID, snapshot.Keep{Last: keep.Last, Daily: keep.Daily, Weekly: keep.Weekly}, a.Now())
	for _, e := range gone {
		a.Log.Info("a snapshot is deleted, for newer ones are verified", "snapshot", archive.SlotName(e.Slot))
	}
	if err != nil {
		a.failed(ofPruning, time.Time{}, fmt.Errorf("delete old snapshots: %w", err))
		return
	}
	a.succeeded(ofPruning)
}

func (a *agent) setWorking(slot time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.working = slot
}

func (a *agent) refused(slot time.Time, err error) {
	p := problemOf(slot, err)
	p.Since = a.Now().UTC().Truncate(time.Second)
	a.lock.Lock()
	defer a.lock.Unlock()
	a.refusals[archive.SlotName(slot)] = p
}

// tried records how a try of a slot ended, and when the next one may begin.
func (a *agent) tried(ctx context.Context, slot time.Time, err error) {
	if ctx.Err() != nil {
		return // The program ends.
	}
	name := archive.SlotName(slot)
	if err == nil {
		a.lock.Lock()
		// Slots that are over are not tried again.
		clear(a.failures)
		clear(a.waits)
		a.lock.Unlock()
		a.succeeded(ofWork)
		return
	}
	a.lock.Lock()
	a.failures[name]++
	a.waits[name] = a.Now().Add(waitAfter(a.failures[name]))
	a.lock.Unlock()
	a.failed(ofWork, slot, err)
}
