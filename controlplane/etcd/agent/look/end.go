package look

import (
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
)

// End reads where the log of a member ends: at the last whole entry, or at a leader's snapshot that came after it. The member may run
// meanwhile. End returns zeros if the log has neither. A new leader makes members replace entries, and etcd appends the replacement: so the
// last entry counts, not the highest.
func End(dataDir string) (term, index uint64) {
	folder := directory{dataDir}.log()
	names, _ := fileutil.ReadDir(folder, fileutil.WithExt(".wal"))
	end := &lastRecords{}
	for _, name := range slices.Backward(names) {
		// A file that has just been begun has no entry yet.
		if _ = end.readFile(filepath.Join(folder, name)); end.index > 0 {
			break
		}
	}
	if end.snapshot.Index > end.index {
		return end.snapshot.Term, end.snapshot.Index
	}
	return end.term, end.index
}

// lastRecords holds the last entry and the newest snapshot of the files that it has read.
type lastRecords struct {
	term, index uint64
	snapshot    walpb.Snapshot
}

// readFile reads a file until it ends, or until a record cannot be read.
func (e *lastRecords) readFile(path string) (err error) {
	defer recovered(facts.LogDamaged, path, &err)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	decoder, record := wal.NewDecoder(fileutil.NewFileReader(file)), &walpb.Record{}
	for {
		if err := decoder.Decode(record); err != nil {
			return err
		}
		if record.Type == wal.CrcType {
			decoder.UpdateCRC(record.Crc)
			continue
		}
		if err := e.take(record); err != nil {
			return err
		}
	}
}

func (e *lastRecords) take(record *walpb.Record) error {
	switch record.Type {
	case wal.EntryType:
		var entry raftpb.Entry
		if err := entry.Unmarshal(record.Data); err != nil {
			return err
		}
		e.term, e.index = entry.Term, entry.Index
	case wal.SnapshotType:
		var snapshot walpb.Snapshot
		if err := snapshot.Unmarshal(record.Data); err != nil {
			return err
		}
		if snapshot.Index > e.snapshot.Index {
			e.snapshot = snapshot
		}
	}
	return nil
}
