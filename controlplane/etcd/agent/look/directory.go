package look

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
)

// Need is the room that etcd needs to start and to go on writing: it makes the next file of the log as soon as it starts, and
// bbolt makes the database larger in steps of 16 MiB.
const Need = 64*1000*1000 + 16<<20

// directory is the data directory of a member.
type directory struct{ path string }

func (d directory) member() string    { return filepath.Join(d.path, "member") }
func (d directory) snapshots() string { return filepath.Join(d.member(), "snap") }
func (d directory) log() string       { return filepath.Join(d.member(), "wal") }
func (d directory) database() string  { return filepath.Join(d.snapshots(), "db") }

// received is the database that the leader sent with a snapshot, before etcd took it.
func (d directory) received(index uint64) string {
	return filepath.Join(d.snapshots(), fmt.Sprintf("%016x.snap.db", index))
}

// here looks at a data directory in this process. It calls report before it opens the database, before it checks the pages of
// the database, and in the end, each time with what it has found. The process may end in between, see Main.
func here(path string, need int64, report func(facts.Facts)) {
	// A page of the database that the disk does not give is a panic then, in this goroutine.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	f := facts.Facts{NeedBytes: need}
	d := directory{path}
	err := room(d, &f)
	if err == nil {
		err = d.look(&f, report)
	}
	report(judged(f, err))
}

// judged are the facts with their state.
func judged(f facts.Facts, err error) facts.Facts {
	var known *problem
	switch {
	case errors.As(err, &known):
		f.State, f.Reason, f.Message = facts.Unreadable, known.reason, known.message
	case err != nil:
		f.State, f.Reason, f.Message = facts.Unreadable, facts.Unknown, err.Error()
	case f.FreeBytes < f.NeedBytes:
		f.State = facts.NoSpace
		f.Message = fmt.Sprintf("%d bytes of room are missing: etcd needs %d, and the file system has %d left. Make the volume larger, or delete what else is on it",
			f.NeedBytes-f.FreeBytes, f.NeedBytes, f.FreeBytes)
	}
	return f
}

// room finds out how much room there is, by the folder that is nearest to the directory.
func room(d directory, f *facts.Facts) error {
	for path := d.path; ; path = filepath.Dir(path) {
		var s unix.Statfs_t
		err := unix.Statfs(path, &s)
		if errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
			continue
		}
		if err != nil {
			return damage(facts.Unknown, path, err)
		}
		f.FreeBytes = int64(min(s.Bavail, 1<<40)) * int64(s.Bsize) //nolint:gosec,unconvert // Far from the ends; types differ by architecture.
		if s.Files > 0 && s.Ffree == 0 {
			f.FreeBytes = 0 // No file can be made.
		}
		return nil
	}
}

// look fills in what is found. An error says that the directory is unreadable.
func (d directory) look(f *facts.Facts, report func(facts.Facts)) error {
	hasLog, hasDatabase, err := d.has()
	if err != nil {
		return err
	}
	if !hasLog && !hasDatabase {
		f.State = facts.Empty
		return nil
	}
	// Whatever is damaged, it should be known which cluster the data are of.
	f.ClusterID, f.MemberID = d.writer()
	if err := d.allowed(hasLog, hasDatabase); err != nil {
		return err
	}
	var db *database
	if hasDatabase {
		report(*f)
		if db, err = openDatabase(d.database()); err != nil {
			return err
		}
		defer func() { db.close() }()
		if !hasLog && db.blank() {
			f.State = facts.Empty
			return nil
		}
		db.tell(f)
	}
	if !hasLog {
		return problemf(facts.LogMissing, "%s has data, and there is no log beside it: etcd would found or join a cluster on top of them", d.database())
	}
	if err := d.lookAtLog(f, &db); err != nil {
		return err
	}
	f.State = facts.Present
	report(judged(*f, nil))
	if err := db.check(); err != nil {
		return err
	}
	f.Checked = true
	return nil
}

// has finds out whether there is a log and a database. A database of no bytes is one that etcd had no time to make.
func (d directory) has() (hasLog, hasDatabase bool, err error) {
	for _, path := range []string{d.path, d.member()} {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, false, nil
		case err != nil:
			return false, false, damage(facts.Unknown, path, err)
		case !info.IsDir():
			return false, false, problemf(facts.Unknown, "%s is no folder", path)
		}
		if err := allowed(path, true); err != nil {
			return false, false, err
		}
	}
	names, err := fileutil.ReadDir(d.log(), fileutil.WithExt(".wal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, damage(facts.Unknown, d.log(), err)
	}
	info, err := os.Stat(d.database())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, damage(facts.Unknown, d.database(), err)
	}
	return len(names) > 0, err == nil && info.Size() > 0, nil
}

// allowed reports that etcd may read and write all that it will.
func (d directory) allowed(hasLog, hasDatabase bool) error {
	if hasLog {
		if err := allowed(d.log(), true); err != nil {
			return err
		}
		names, err := fileutil.ReadDir(d.log(), fileutil.WithExt(".wal"))
		if err != nil {
			return damage(facts.Unknown, d.log(), err)
		}
		for _, name := range names {
			if err := allowed(filepath.Join(d.log(), name), false); err != nil {
				return err
			}
		}
	}
	if !hasDatabase {
		return nil
	}
	if err := allowed(d.snapshots(), true); err != nil {
		return err
	}
	return allowed(d.database(), false)
}

// lookAtLog reads the log and holds the database against it. It takes the database that the leader sent where etcd will.
func (d directory) lookAtLog(f *facts.Facts, db **database) error {
	l, err := readLog(d.log(), d.snapshots())
	if l != nil {
		if err := l.tell(f); err != nil {
			return damage(facts.LogDamaged, d.log(), err)
		}
	}
	if err != nil {
		return err
	}
	if *db == nil || l.snapshot.Index > (*db).applied {
		if err := d.takeReceived(l.snapshot.Index, f, db); err != nil {
			return err
		}
	}
	switch known := max(l.state.Commit, f.Applied); {
	case known > l.index:
		return problemf(facts.LogTooShort, "%s ends at entry %d, and entry %d was already committed or applied: entries are lost that this member acknowledged", d.log(), l.index, known)
	case l.state.Commit != 0 && l.state.Commit < l.snapshot.Index:
		return damage(facts.LogDamaged, d.log(), fmt.Errorf("entries up to %d are committed, and there is a snapshot of entry %d", l.state.Commit, l.snapshot.Index))
	}
	return nil
}

// takeReceived opens the database that the leader sent, in place of one that is older.
func (d directory) takeReceived(index uint64, f *facts.Facts, db **database) error {
	path := d.received(index)
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && *db == nil:
		return problemf(facts.DatabaseMissing, "%s has a log, and there is no database", d.member())
	case errors.Is(err, fs.ErrNotExist):
		return problemf(facts.DatabaseTooOld, "%s has applied entries up to %d, and the log begins after entry %d", d.database(), (*db).applied, index)
	case err != nil:
		return damage(facts.Unknown, path, err)
	}
	received, err := openDatabase(path)
	if err != nil {
		return err
	}
	(*db).close()
	*db = received
	received.tell(f)
	return nil
}

func (l *log) tell(f *facts.Facts) (err error) {
	f.Term, f.Index, f.Commit, f.TornTail = l.term, l.index, l.state.Commit, l.torn
	f.ClusterID, f.MemberID, err = l.identity()
	return err
}

func (d *database) tell(f *facts.Facts) {
	f.Applied, f.Revision, f.StorageVersion, f.DatabaseBytes = d.applied, d.revision, d.storageVersion, d.bytes
}
