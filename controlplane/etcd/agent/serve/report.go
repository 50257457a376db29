package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/look"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// kind is what a problem is of.
type kind string

const (
	ofConfig  kind = "configuration"
	ofWork    kind = "snapshot"
	ofPruning kind = "retention"
	ofListing kind = "listing"
	ofCopies  kind = "copies"
)

// order is which problem is told first.
var order = []kind{ofConfig, ofWork, ofPruning, ofListing, ofCopies}

// fieldRecipients is that of the recipients.
const fieldRecipients = "recipients"

// failed records a problem, since when it is there.
func (a *agent) failed(k kind, slot time.Time, err error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	p := problemOf(slot, err)
	p.Since = a.Now().UTC().Truncate(time.Second)
	last := a.problems[k]
	if last != nil && last.Field == p.Field && last.Reason == p.Reason {
		p.Since = last.Since
	}
	if k != ofConfig || last == nil || last.Message != p.Message {
		a.Log.Warn("a task of the agent failed", "of", string(k), "snapshot", nameOf(slot), "error", p.Message)
	}
	a.problems[k] = p
}

func nameOf(slot time.Time) string {
	if slot.IsZero() {
		return ""
	}
	return archive.SlotName(slot)
}

func (a *agent) succeeded(k kind) {
	a.lock.Lock()
	defer a.lock.Unlock()
	delete(a.problems, k)
}

func problemOf(slot time.Time, err error) *backup.Problem {
	p := &backup.Problem{Slot: slot, Field: store.FieldOf(err), Reason: string(archive.ReasonOf(err)), Message: limited(err.Error()), Full: errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)}
	if p.Field != "" && p.Field != fieldRecipients {
		p.Field = "store." + p.Field
	}
	return p
}

// maxMessage bounds messages in bytes.
const maxMessage = 500

// limited is a message for people: printable, and not too long.
func limited(text string) string {
	return errortext.Short(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text), maxMessage)
}

// report is what the agent knows.
func (a *agent) report() backup.Report {
	entries, at := a.listing.last()
	a.lock.Lock()
	defer a.lock.Unlock()
	r := backup.Report{Member: a.Member, OnDuty: a.duty, KeysID: a.keysID, Own: a.own, Working: a.working, Listed: at, Problem: a.problem(entries), Unread: a.problems[ofListing], Volume: a.volume}
	for i, e := range entries {
		if i == backup.MaxSnapshots {
			r.More = len(entries) - i
			break
		}
		s := told(e)
		// A trial of this agent refused the snapshot. Nothing in the store says so.
		if p := a.refusals[archive.SlotName(e.Slot)]; p != nil && e.Err == nil && !e.Verified() {
			s.Reason, s.Message = p.Reason, p.Message
		}
		r.Snapshots = append(r.Snapshots, s)
	}
	return r
}

// look notes again and again how much room the member's own volume has. A report does not wait for a disk that hangs.
func (a *agent) look(ctx context.Context) {
	for ctx.Err() == nil {
		a.lookAtVolume()
		select {
		case <-ctx.Done():
		case <-time.After(a.Interval):
		}
	}
}

// lookAtVolume notes the room on the member's own volume; nothing while the member has no data.
func (a *agent) lookAtVolume() {
	var seen *backup.Volume
	free, err := snapshot.FreeBytes(a.DataDir)
	if err == nil {
		var need int64
		if need, err = (snapshot.Survivor{DataDir: a.DataDir}).NeedBytes(); err == nil {
			seen = &backup.Volume{FreeBytes: free, SurvivorBytes: need}
			if a.isLeaderless() {
				seen.LogTerm, seen.LogIndex = look.End(a.DataDir)
			}
		}
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.volume = seen
}

// problem is the one to tell: the last failure, or that a trial refused a snapshot and no newer one is verified.
func (a *agent) problem(entries []snapshot.Entry) *backup.Problem {
	for _, k := range order {
		if p := a.problems[k]; p != nil {
			return p
		}
	}
	for _, e := range entries {
		if e.Verified() {
			break
		}
		if p := a.refusals[archive.SlotName(e.Slot)]; p != nil {
			return p
		}
	}
	return nil
}

func told(e snapshot.Entry) backup.Snapshot {
	if e.Err != nil {
		return backup.Snapshot{Slot: e.Slot, Reason: string(archive.ReasonOf(e.Err)), Message: limited(e.Err.Error())}
	}
	m := e.Manifest
	s := backup.Snapshot{
		Slot: e.Slot, TenantUID: m.Cluster.UID, Member: m.Member, Taken: m.Taken, Revision: m.Revision,
		// etcd sends a hash after the database.
		DatabaseBytes: m.Plain.Bytes - sha256.Size, StoredBytes: m.Encrypted.Bytes, SHA256: m.Encrypted.SHA256,
		EtcdVersion: m.EtcdVersion, StorageVersion: m.StorageVersion, EncryptionKeyID: m.EncryptionKeyID,
	}
	if e.Verified() {
		s.Verified = e.Verification.Verified
	}
	return s
}
