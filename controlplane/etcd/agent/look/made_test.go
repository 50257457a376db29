package look

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// role is that of a program that looks.
const role = "look"

func TestMain(m *testing.M) {
	if reexec.Role() == role {
		if err := Main(os.Args[1], needed, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	// The real ones have 64 MB.
	wal.SegmentSizeBytes = segment
	os.Exit(m.Run())
}

const (
	segment = 16 << 10
	needed  = 1
	// What a made directory has: the entries of its log, and the one that its snapshot is of.
	entries, snapshotOf = 120, 60
	// What a page of bbolt is.
	pageSize, branchPage = 4096, 1
)

// lookedAt is what a child process found, after a look that wrote nothing.
func lookedAt(t testing.TB, dir string) facts.Facts {
	t.Helper()
	before := content(t, dir)
	program := reexec.Command(t.Context(), role)
	program.Args = append(program.Args, dir)
	f := Child(t.Context(), program)
	if after := content(t, dir); after != before {
		t.Errorf("looking changed the directory:\n%s\n%s", before, after)
	}
	return f
}

// content has a line for every file: what it is, and a checksum of its bytes.
func content(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s %s", path, info.Mode(), info.ModTime())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(data))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// made is the data directory of a member that nobody ran: a log of several files, a snapshot and a database.
func made(t testing.TB) directory {
	t.Helper()
	d := directory{t.TempDir()}
	must(t, os.MkdirAll(d.snapshots(), 0o700))
	metadata := &etcdserverpb.Metadata{NodeID: 0xabc, ClusterID: 0xdef}
	w, err := wal.Create(zap.NewNop(), d.log(), marshalled(t, metadata))
	must(t, err)
	for i := uint64(1); i <= entries; i++ {
		data := strings.Repeat(fmt.Sprintf("%04d", i), 150)
		must(t, w.Save(raftpb.HardState{Term: 2, Vote: 1, Commit: i - 1}, []raftpb.Entry{{Term: 2, Index: i, Data: []byte(data)}}))
		if i == snapshotOf {
			s := raftpb.Snapshot{Data: []byte("{}"), Metadata: raftpb.SnapshotMetadata{Term: 2, Index: i - 1}}
			must(t, snap.New(zap.NewNop(), d.snapshots()).SaveSnap(s))
			must(t, w.SaveSnapshot(walpb.Snapshot{Term: 2, Index: i - 1, ConfState: &raftpb.ConfState{Voters: []uint64{0xabc}}}))
		}
	}
	must(t, w.Close())
	makeDatabase(t, d.database(), entries-1)
	return d
}

// makeDatabase makes a database that has applied all entries up to one.
func makeDatabase(t testing.TB, path string, applied uint64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true, NoSync: true})
	must(t, err)
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	must(t, db.Update(func(tx *bolt.Tx) error {
		keys, err := tx.CreateBucket(keyBucket)
		must(t, err)
		for i := uint64(2); i <= applied; i++ {
			key := append(append(number(i), '_'), number(0)...)
			record := mvccpb.KeyValue{Key: fmt.Appendf(nil, "key-%d", i), Value: []byte(strings.Repeat("v", 200)), ModRevision: int64(i)} //nolint:gosec // Small.
			must(t, keys.Put(key, marshalled(t, &record)))
		}
		meta, err := tx.CreateBucket(metaBucket)
		must(t, err)
		must(t, meta.Put([]byte(consistentIndex), number(applied)))
		must(t, meta.Put([]byte(term), number(2)))
		return meta.Put([]byte(storageVersion), []byte("3.6.0"))
	}))
	must(t, db.Close())
}

func marshalled(t testing.TB, message interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	data, err := message.Marshal()
	must(t, err)
	return data
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logs are the files of the log, from oldest to newest.
func (d directory) logs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.log(), "*.wal"))
	must(t, err)
	if len(files) == 0 {
		t.Fatalf("%s has no log", d.path)
	}
	return files
}

// frame is where one record of the log is in its file.
type frame struct {
	from, to int64
	record   walpb.Record
}

// frames are the records of one file of the log.
func frames(t testing.TB, path string) []frame {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	var all []frame
	for at := int64(0); at+8 <= int64(len(data)); {
		length := binary.LittleEndian.Uint64(data[at:])
		if length == 0 {
			break
		}
		size := int64(length &^ (0xff << 56)) //nolint:gosec // It is that of a small file.
		f := frame{from: at, to: at + 8 + size + int64(length>>56&7)}
		must(t, f.record.Unmarshal(data[at+8:at+8+size]))
		all = append(all, f)
		at = f.to
	}
	return all
}

// last is the last frame of a type.
func last(t testing.TB, path string, kind int64) frame {
	t.Helper()
	all := frames(t, path)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].record.Type == kind {
			return all[i]
		}
	}
	t.Fatalf("%s has no record of type %d", path, kind)
	return frame{}
}

// change changes the bytes of a file.
func change(t testing.TB, path string, f func(data []byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, f(data), 0o600))
}

// flip turns over all bits of one byte.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	change(t, path, func(data []byte) []byte {
		data[at] ^= 0xff
		return data
	})
}
