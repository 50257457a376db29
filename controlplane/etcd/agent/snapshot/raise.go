package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// raise has the log of a member say that all of its entries are committed. etcd --force-new-cluster drops what is above the commit
// index on the disk, which a member writes down late: entries that a majority had, and that were acknowledged, are among them. A
// write that was cut off at the end of the log is taken away, as etcd does.
//
// A learner becomes a voter: etcd takes all other members out of the cluster, and raft ends without a voter.
func raise(member string) (err error) {
	// etcd's packages panic at what they do not expect.
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("read the log: %v", value)
		}
	}()
	l, err := openRaised(member)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.file.Close()) }() // It is on the disk then.
	state := l.state
	last := max(state.Commit, l.snapshot.Index)
	if len(l.entries) > 0 {
		end := l.entries[len(l.entries)-1]
		last, state.Term = end.Index, max(state.Term, end.Term)
	}
	if last < state.Commit {
		return fmt.Errorf("the log ends at entry %d, and entry %d is committed", last, state.Commit)
	}
	var more []raftpb.Entry
	promotion, err := l.promotion()
	if err != nil {
		return err
	}
	if promotion != nil {
		last++
		more = append(more, raftpb.Entry{Type: raftpb.EntryConfChange, Term: state.Term, Index: last, Data: promotion})
	}
	state.Commit = last
	return l.file.Save(state, more)
}

// raised is an open log, as etcd reads it.
type raised struct {
	file     *wal.WAL
	metadata []byte
	// snapshot is what the entries come after.
	snapshot raftpb.SnapshotMetadata
	state    raftpb.HardState
	entries  []raftpb.Entry
}

// openRaised opens a log at its end, and repairs the end where it is cut off.
func openRaised(member string) (raised, error) {
	folder := filepath.Join(member, "wal")
	l, err := openLog(member, folder)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return l, err
	}
	if !wal.Repair(zap.NewNop(), folder) {
		return l, fmt.Errorf("repair the end of the log: %w", err)
	}
	return openLog(member, folder)
}

func openLog(member, folder string) (l raised, err error) {
	known, err := wal.ValidSnapshotEntries(zap.NewNop(), folder)
	if err != nil {
		return l, err
	}
	newest, err := snap.New(zap.NewNop(), filepath.Join(member, "snap")).LoadNewestAvailable(known)
	if err != nil && !errors.Is(err, snap.ErrNoSnapshot) {
		return l, err
	}
	var from walpb.Snapshot
	if newest != nil {
		l.snapshot = newest.Metadata
		from.Index, from.Term = newest.Metadata.Index, newest.Metadata.Term
	}
	if l.file, err = wal.Open(zap.NewNop(), folder, from); err != nil {
		return l, err
	}
	if l.metadata, l.state, l.entries, err = l.file.ReadAll(); err != nil {
		_ = l.file.Close()
	}
	return l, err
}

// promotion is the change of members by which the member is a voter; nil where it is one.
func (l raised) promotion() ([]byte, error) {
	var m etcdserverpb.Metadata
	if err := m.Unmarshal(l.metadata); err != nil {
		return nil, fmt.Errorf("read which member wrote the log: %w", err)
	}
	learner, err := l.learner(m.NodeID)
	if !learner || err != nil {
		return nil, err
	}
	promoted, err := json.Marshal(membership.ConfigChangeContext{Member: membership.Member{ID: types.ID(m.NodeID)}, IsPromote: true})
	if err != nil {
		return nil, err
	}
	return (&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode, NodeID: m.NodeID, Context: promoted}).Marshal()
}

// learner reports whether a member does not vote when all entries are applied.
func (l raised) learner(id uint64) (learner bool, err error) {
	for _, other := range l.snapshot.ConfState.Learners {
		learner = learner || other == id
	}
	for _, e := range l.entries {
		if e.Type != raftpb.EntryConfChange {
			continue
		}
		var change raftpb.ConfChange
		if err := change.Unmarshal(e.Data); err != nil {
			return false, fmt.Errorf("read entry %d: %w", e.Index, err)
		}
		if change.NodeID == id && change.Type != raftpb.ConfChangeUpdateNode {
			learner = change.Type == raftpb.ConfChangeAddLearnerNode
		}
	}
	return learner, nil
}
