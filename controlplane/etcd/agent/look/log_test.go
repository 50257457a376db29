package look

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// etcdReads does what openWALFromSnapshot and recoverSnapshot of etcd's server do, with what they call. It repairs the log.
func etcdReads(d directory) (state raftpb.HardState, snapshot walpb.Snapshot, term, index uint64, repaired bool, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	known, err := wal.ValidSnapshotEntries(zap.NewNop(), d.log())
	if err != nil {
		return state, snapshot, 0, 0, false, err
	}
	newest, err := snap.New(zap.NewNop(), d.snapshots()).LoadNewestAvailable(known)
	if err != nil && !errors.Is(err, snap.ErrNoSnapshot) {
		return state, snapshot, 0, 0, false, err
	}
	if newest != nil {
		snapshot.Index, snapshot.Term = newest.Metadata.Index, newest.Metadata.Term
	}
	for {
		w, err := wal.Open(zap.NewNop(), d.log(), snapshot)
		if err != nil {
			return state, snapshot, 0, 0, repaired, err
		}
		_, state, found, err := w.ReadAll()
		_ = w.Close()
		switch {
		case err == nil:
			term, index = snapshot.Term, snapshot.Index
			if len(found) > 0 {
				term, index = found[len(found)-1].Term, found[len(found)-1].Index
			}
			return state, snapshot, term, index, repaired, nil
		case repaired || !errors.Is(err, io.ErrUnexpectedEOF):
			return state, snapshot, 0, 0, repaired, err
		case !wal.Repair(zap.NewNop(), d.log()):
			return state, snapshot, 0, 0, repaired, fmt.Errorf("not repaired: %w", err)
		}
		repaired = true
	}
}

// sameAsEtcd compares what is read with what etcd reads, which changes the directory.
func sameAsEtcd(t testing.TB, d directory) {
	t.Helper()
	l, err := readLog(d.log(), d.snapshots())
	state, snapshot, term, index, repaired, etcdErr := etcdReads(d)
	if (err == nil) != (etcdErr == nil) {
		t.Fatalf("reading ended with %v, and etcd's with %v", err, etcdErr)
	}
	if err != nil {
		return
	}
	if endTerm, endIndex := End(d.path); index > snapshot.Index && (endTerm != term || endIndex != index) {
		t.Fatalf("the log ends with entry %d of term %d, and etcd's with %d of %d", endIndex, endTerm, index, term)
	}
	want := log{state: state, snapshot: snapshot, term: term, index: index, torn: repaired}
	if l.state.String() != want.state.String() || l.snapshot.Index != want.snapshot.Index || l.term != term || l.index != index || l.torn != repaired {
		t.Fatalf("reading found %+v, and etcd found %+v", l, want)
	}
}

func TestTheLogIsReadAsEtcdReadsIt(t *testing.T) {
	whole := made(t)
	files := whole.logs(t)
	if len(files) < 3 {
		t.Fatalf("the log has only %d files", len(files))
	}
	for name, damage := range map[string]func(d directory, file string){
		"nothing":        func(directory, string) {},
		"a byte of data": func(_ directory, file string) { f := last(t, file, wal.EntryType); flip(t, file, f.to-20) },
		"a byte of a length": func(_ directory, file string) {
			f := last(t, file, wal.EntryType)
			flip(t, file, f.from+2)
		},
		"a byte of a checksum": func(_ directory, file string) { f := last(t, file, wal.CrcType); flip(t, file, f.from+11) },
		"the type of a record": func(_ directory, file string) { f := last(t, file, wal.EntryType); flip(t, file, f.from+9) },
		"cut off in a record": func(_ directory, file string) {
			f := last(t, file, wal.EntryType)
			must(t, os.Truncate(file, (f.from+f.to)/2))
		},
		"cut off in a length": func(_ directory, file string) { must(t, os.Truncate(file, last(t, file, wal.EntryType).from+3)) },
		"cut off between records": func(_ directory, file string) {
			must(t, os.Truncate(file, last(t, file, wal.EntryType).from))
		},
		"a sector of zeros": func(_ directory, file string) {
			f := last(t, file, wal.EntryType)
			change(t, file, func(data []byte) []byte {
				clear(data[(f.from+600)/512*512 : f.to])
				return data
			})
		},
		"no bytes":  func(_ directory, file string) { must(t, os.Truncate(file, 0)) },
		"gone":      func(_ directory, file string) { must(t, os.Remove(file)) },
		"all zeros": func(_ directory, file string) { change(t, file, func(data []byte) []byte { clear(data); return data }) },
		"no snapshot": func(d directory, _ string) {
			must(t, os.RemoveAll(d.snapshots()))
			must(t, os.MkdirAll(d.snapshots(), 0o700))
		},
		"a damaged snapshot": func(d directory, _ string) {
			names, err := filepath.Glob(filepath.Join(d.snapshots(), "*.snap"))
			must(t, err)
			flip(t, names[0], 7)
		},
	} {
		for _, i := range []int{0, len(files) / 2, len(files) - 1} {
			t.Run(fmt.Sprintf("%s in file %d", name, i), func(t *testing.T) {
				d := copied(t, whole)
				damage(d, d.logs(t)[i])
				sameAsEtcd(t, d)
			})
		}
	}
}

func TestALogWithoutAnEntryHasNoEnd(t *testing.T) {
	d := directory{t.TempDir()}
	if term, index := End(d.path); term != 0 || index != 0 {
		t.Errorf("without a log it ends with entry %d of term %d", index, term)
	}
	whole := made(t)
	term, want := End(whole.path)
	// Etcd begins the next file before it has an entry for it.
	must(t, os.WriteFile(filepath.Join(whole.log(), "00000000000000ff-00000000000000ff.wal"), make([]byte, segment), 0o600))
	if term2, index := End(whole.path); want != entries || index != want || term2 != term {
		t.Errorf("it ends with entry %d of term %d, and with %d of %d once there is a file without entries", want, term, index, term2)
	}
}

// A member that was away for long gets a snapshot in place of the entries that it lacks.
func TestALogMayEndWithTheSnapshotOfALeader(t *testing.T) {
	d := directory{t.TempDir()}
	w, err := wal.Create(zap.NewNop(), d.log(), nil)
	must(t, err)
	must(t, w.Save(raftpb.HardState{Term: 2}, []raftpb.Entry{{Term: 1, Index: 1}, {Term: 2, Index: 2}}))
	must(t, w.SaveSnapshot(walpb.Snapshot{Term: 2, Index: 1, ConfState: &raftpb.ConfState{}}))
	if term, index := End(d.path); term != 2 || index != 2 {
		t.Errorf("with a snapshot of its own it ends with entry %d of term %d", index, term)
	}
	must(t, w.SaveSnapshot(walpb.Snapshot{Term: 5, Index: 90, ConfState: &raftpb.ConfState{}}))
	must(t, w.Close())
	if term, index := End(d.path); term != 5 || index != 90 {
		t.Errorf("with the snapshot of a leader it ends with entry %d of term %d", index, term)
	}
}

// copied is a copy of a directory.
func copied(t testing.TB, from directory) directory {
	t.Helper()
	to := directory{t.TempDir()}
	must(t, os.CopyFS(to.path, os.DirFS(from.path)))
	return to
}

// FuzzLogs changes bytes of a log, and cuts it off: what is read is what etcd reads, and nothing is written.
func FuzzLogs(f *testing.F) {
	whole := made(f)
	files := len(whole.logs(f))
	f.Add(0, int64(20), []byte{1}, int64(0))
	f.Add(files-1, int64(700), []byte{}, int64(900))
	f.Add(files-1, int64(512), make([]byte, 600), int64(0))
	f.Add(1, int64(8), []byte("\xff\xff\xff\xff\xff\xff\xff\xff"), int64(0))
	f.Fuzz(func(t *testing.T, file int, at int64, bytes []byte, size int64) {
		d := copied(t, whole)
		logs := d.logs(t)
		damageFile(t, logs[uint(file)%uint(len(logs))], at, bytes, size)
		before := content(t, d.path)
		_, _ = readLog(d.log(), d.snapshots())
		if after := content(t, d.path); after != before {
			t.Errorf("reading changed the directory:\n%s\n%s", before, after)
		}
		sameAsEtcd(t, d)
	})
}

// damageFile adds bytes to those of a file, and cuts the file off.
func damageFile(t testing.TB, path string, at int64, bytes []byte, size int64) {
	t.Helper()
	change(t, path, func(data []byte) []byte {
		if at >= 0 {
			for i, b := range bytes {
				if place := at + int64(i); place < int64(len(data)) {
					data[place] ^= b
				}
			}
		}
		if size > 0 && size < int64(len(data)) {
			return data[:size]
		}
		return data
	})
}
