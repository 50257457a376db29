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

// End is where the log of a member ends that may run: at its last whole entry, or at the snapshot of a leader that came after it. It is
// zeros where there is none. An entry can take the place of one before, as etcd writes what a new leader has; so the last one counts,
// not the highest.
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

// lastRecords are what files of a log end with: an entry, and the newest snapshot.
type lastRecords struct {
	term, index uint64
	snapshot    walpb.Snapshot
}

// readFile reads a file up to its end, or to a record that cannot be read.
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
