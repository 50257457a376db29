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

// End is the last whole entry in the log of a member that may run: zeros where there is none. An entry of a log can take the place of one
// before, as etcd writes what a new leader has; so the last one counts, not the highest.
func End(dataDir string) (term, index uint64) {
	folder := directory{dataDir}.log()
	names, _ := fileutil.ReadDir(folder, fileutil.WithExt(".wal"))
	for _, name := range slices.Backward(names) {
		// A file that has just been begun has no entry yet.
		if term, index, _ = lastEntry(filepath.Join(folder, name)); index > 0 {
			return term, index
		}
	}
	return 0, 0
}

// lastEntry is the last entry of a file up to its end, or to a record that cannot be read.
func lastEntry(path string) (term, index uint64, err error) {
	defer recovered(facts.LogDamaged, path, &err)
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	decoder, record := wal.NewDecoder(fileutil.NewFileReader(file)), &walpb.Record{}
	for {
		if err := decoder.Decode(record); err != nil {
			return term, index, err
		}
		switch record.Type {
		case wal.CrcType:
			decoder.UpdateCRC(record.Crc)
		case wal.EntryType:
			var entry raftpb.Entry
			if err := entry.Unmarshal(record.Data); err != nil {
				return term, index, err
			}
			term, index = entry.Term, entry.Index
		}
	}
}
