package look

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
)

// log is what the log of a member says.
type log struct {
	metadata []byte
	state    raftpb.HardState
	// snapshot is the one that etcd starts from; zero when it reads the whole log.
	snapshot walpb.Snapshot
	// term and index are those of the last entry.
	term, index uint64
	// torn is true when etcd cuts off the end.
	torn bool
}

// identity is the member that wrote the log.
func (l *log) identity() (cluster, member string, err error) {
	var m etcdserverpb.Metadata
	if len(l.metadata) == 0 {
		return "", "", errors.New("it does not say which member wrote it")
	}
	if err := m.Unmarshal(l.metadata); err != nil {
		return "", "", fmt.Errorf("read which member wrote it: %w", err)
	}
	return types.ID(m.ClusterID).String(), types.ID(m.NodeID).String(), nil
}

// writer is the member that wrote the log, as the first file says that still tells it; empty where none does.
func (d directory) writer() (cluster, member string) {
	names, _ := fileutil.ReadDir(d.log(), fileutil.WithExt(".wal"))
	for _, name := range names {
		l := &log{metadata: firstMetadata(filepath.Join(d.log(), name))}
		if cluster, member, err := l.identity(); err == nil {
			return cluster, member
		}
	}
	return "", ""
}

// firstMetadata is what the second record of each file of the log says: the first one is its checksum.
func firstMetadata(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close() //nolint:errcheck // It was only read.
	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	for range 2 {
		record := &walpb.Record{}
		if err := decoder.Decode(record); err != nil {
			return nil
		}
		switch record.Type {
		case wal.MetadataType:
			return record.Data
		case wal.CrcType:
			decoder.UpdateCRC(record.Crc)
		}
	}
	return nil
}

// readLog reads the log as etcd does when it starts.
func readLog(folder, snapshots string) (l *log, err error) {
	defer recovered(facts.LogDamaged, folder, &err)
	known, err := wal.ValidSnapshotEntries(zap.NewNop(), folder)
	if err != nil {
		return nil, damage(facts.LogDamaged, folder, err)
	}
	l = &log{}
	if l.snapshot, err = newestSnapshot(snapshots, known); err != nil {
		return nil, err
	}
	l.term, l.index = l.snapshot.Term, l.snapshot.Index
	files, err := filesFrom(folder, l.snapshot.Index)
	if err != nil {
		return nil, damage(facts.LogDamaged, folder, err)
	}
	crc := uint32(0)
	for i, name := range files {
		last := i == len(files)-1
		path := filepath.Join(folder, name)
		crc, err = l.readFile(path, crc)
		if last && errors.Is(err, io.ErrUnexpectedEOF) {
			l.torn, err = true, nil
		}
		if err != nil {
			return l, damage(facts.LogDamaged, path, err)
		}
	}
	return l, nil
}

// newestSnapshot is the newest snapshot file that can be read and that the log knows. Snapshotter of etcd's package would
// rename those that cannot.
func newestSnapshot(folder string, known []walpb.Snapshot) (walpb.Snapshot, error) {
	names, err := fileutil.ReadDir(folder, fileutil.WithExt(".snap"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return walpb.Snapshot{}, damage(facts.Unknown, folder, err)
	}
	for _, name := range slices.Backward(names) {
		read, err := readSnapshot(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		for _, k := range known {
			if k.Index == read.Index && k.Term == read.Term {
				return walpb.Snapshot{Index: read.Index, Term: read.Term}, nil
			}
		}
	}
	return walpb.Snapshot{}, nil
}

// maxSnapshot bounds a snapshot file: it has the members of the cluster and little else.
const maxSnapshot = 64 << 20

func readSnapshot(path string) (metadata raftpb.SnapshotMetadata, err error) {
	defer recovered(facts.LogDamaged, path, &err)
	info, err := os.Stat(path)
	if err != nil {
		return metadata, err
	}
	if info.Size() > maxSnapshot {
		return metadata, fmt.Errorf("%s has %d bytes, and %d is the most", path, info.Size(), maxSnapshot)
	}
	read, err := snap.Read(zap.NewNop(), path)
	if err != nil {
		return metadata, err
	}
	return read.Metadata, nil
}

// filesFrom are the files of the log that etcd reads when it starts from an index, from oldest to newest.
func filesFrom(folder string, index uint64) ([]string, error) {
	names, err := fileutil.ReadDir(folder, fileutil.WithExt(".wal"))
	if err != nil {
		return nil, err
	}
	type file struct{ sequence, first uint64 }
	var parsed []file
	names = slices.DeleteFunc(names, func(name string) bool {
		var f file
		if _, err := fmt.Sscanf(name, "%016x-%016x.wal", &f.sequence, &f.first); err != nil {
			return true
		}
		parsed = append(parsed, f)
		return false
	})
	for i := len(names) - 1; i >= 0; i-- {
		if i < len(names)-1 && parsed[i].sequence+1 != parsed[i+1].sequence {
			return nil, fmt.Errorf("the file between %s and %s is missing", names[i], names[i+1])
		}
		if parsed[i].first <= index {
			return names[i:], nil
		}
	}
	return nil, fmt.Errorf("no file has the entries after index %d; there are %s", index, strings.Join(names, ", "))
}

// readFile reads one file of the log, and gives the checksum that the next one goes on with.
func (l *log) readFile(path string, crc uint32) (uint32, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	decoder.UpdateCRC(crc)
	record := &walpb.Record{}
	for {
		err := decoder.Decode(record)
		if errors.Is(err, io.EOF) {
			return decoder.LastCRC(), nil
		}
		if err != nil {
			return 0, fmt.Errorf("at byte %d: %w", decoder.LastOffset(), err)
		}
		// The record is whole. The error must not wrap io.ErrUnexpectedEOF: callers take that for a record that was cut off.
		if err := l.take(decoder, record); err != nil {
			return 0, fmt.Errorf("before byte %d: %v", decoder.LastOffset(), err) //nolint:errorlint // See above.
		}
	}
}

// take does what WAL.ReadAll of etcd's package does, without keeping entries.
func (l *log) take(decoder wal.Decoder, record *walpb.Record) error {
	switch record.Type {
	case wal.EntryType:
		var e raftpb.Entry
		if err := e.Unmarshal(record.Data); err != nil {
			return fmt.Errorf("read an entry: %w", err)
		}
		if e.Index <= l.snapshot.Index {
			return nil
		}
		if e.Index > l.index+1 {
			return fmt.Errorf("entry %d comes after entry %d", e.Index, l.index)
		}
		l.term, l.index = e.Term, e.Index
	case wal.StateType:
		var state raftpb.HardState
		if err := state.Unmarshal(record.Data); err != nil {
			return fmt.Errorf("read a state: %w", err)
		}
		l.state = state
	case wal.MetadataType:
		if l.metadata != nil && !slices.Equal(l.metadata, record.Data) {
			return wal.ErrMetadataConflict
		}
		l.metadata = slices.Clone(record.Data)
	case wal.CrcType:
		if crc := decoder.LastCRC(); crc != 0 && record.Validate(crc) != nil {
			return wal.ErrCRCMismatch
		}
		decoder.UpdateCRC(record.Crc)
	case wal.SnapshotType:
		var s walpb.Snapshot
		if err := s.Unmarshal(record.Data); err != nil {
			return fmt.Errorf("read a snapshot's record: %w", err)
		}
		if s.Index == l.snapshot.Index && s.Term != l.snapshot.Term {
			return wal.ErrSnapshotMismatch
		}
	default:
		return fmt.Errorf("a record has the unknown type %d", record.Type)
	}
	return nil
}
