package look

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// ofEtcd35 is the directory of a member of etcd v3.5.35 that ended by itself: 30 writes, a deletion, a compaction and 5
// writes, with a snapshot every 20 entries. Its zeros are not in the archive.
func ofEtcd35(t testing.TB) directory {
	t.Helper()
	file, err := os.Open("testdata/etcd-3.5.tar.gz")
	must(t, err)
	defer file.Close() //nolint:errcheck // It was only read.
	unpacked, err := gzip.NewReader(file)
	must(t, err)
	d := directory{t.TempDir()}
	must(t, os.MkdirAll(d.snapshots(), 0o700))
	must(t, os.MkdirAll(d.log(), 0o700))
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		data, err := io.ReadAll(archive)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(d.path, header.Name), data, 0o600))
	}
	must(t, os.Truncate(d.logs(t)[0], 64*1000*1000))
	return d
}

// factsOfEtcd35 is what etcd said of that directory when it ran.
func factsOfEtcd35(f facts.Facts) facts.Facts {
	return facts.Facts{
		State: facts.Present, ClusterID: "d1cfaf999eb97a2a", MemberID: "bdae9bbc11dd390d", Term: 2, Index: 41, Commit: 41, Applied: 41,
		Revision: 37, StorageVersion: "3.5", Checked: true, DatabaseBytes: 24576, FreeBytes: f.FreeBytes, NeedBytes: needed,
	}
}

func TestADirectoryOfEtcd35IsRead(t *testing.T) {
	if f := lookedAt(t, ofEtcd35(t).path); f != factsOfEtcd35(f) || f.FreeBytes <= 0 {
		t.Errorf("it found %#v", f)
	}
}

func TestEachStateHasItsDirectory(t *testing.T) {
	whole := made(t)
	firstLog := func(d directory) string { return d.logs(t)[0] }
	newestLog := func(d directory) string { files := d.logs(t); return files[len(files)-1] }
	for name, test := range map[string]struct {
		is      func(d directory)
		state   facts.State
		reason  facts.Reason
		message string
	}{
		"whole":            {is: func(directory) {}, state: facts.Present},
		"no directory":     {is: func(d directory) { must(t, os.RemoveAll(d.path)) }, state: facts.Empty},
		"no member":        {is: func(d directory) { must(t, os.RemoveAll(d.member())) }, state: facts.Empty},
		"a file in place":  {is: func(d directory) { must(t, os.RemoveAll(d.path)); must(t, os.WriteFile(d.path, nil, 0o600)) }, state: facts.Unreadable, reason: facts.Unknown, message: "is no folder"},
		"only empty files": {is: func(d directory) { must(t, os.RemoveAll(d.log())); must(t, os.Truncate(d.database(), 0)) }, state: facts.Empty},
		"no log":           {is: func(d directory) { must(t, os.RemoveAll(d.log())) }, state: facts.Unreadable, reason: facts.LogMissing, message: "there is no log beside it"},
		"no log, and a database without data": {
			is: func(d directory) {
				must(t, os.RemoveAll(d.log()))
				must(t, os.Remove(d.database()))
				makeDatabase(t, d.database(), 0)
			},
			state: facts.Empty,
		},
		"no database":               {is: func(d directory) { must(t, os.Remove(d.database())) }, state: facts.Unreadable, reason: facts.DatabaseMissing, message: "there is no database"},
		"no folder of the database": {is: func(d directory) { must(t, os.RemoveAll(d.snapshots())) }, state: facts.Unreadable, reason: facts.DatabaseMissing, message: "there is no database"},
		"a file of the log is missing": {
			is:    func(d directory) { must(t, os.Remove(d.logs(t)[len(d.logs(t))-2])) },
			state: facts.Unreadable, reason: facts.LogDamaged, message: "crc mismatch",
		},
		"an older file of the log in place of the newest": {
			is: func(d directory) {
				older, err := os.ReadFile(firstLog(d))
				must(t, err)
				must(t, os.WriteFile(newestLog(d), older, 0o600))
			},
			state: facts.Unreadable, reason: facts.LogDamaged, message: "crc mismatch",
		},
		"the log ends in the middle": {
			is: func(d directory) {
				f := last(t, newestLog(d), wal.EntryType)
				must(t, os.Truncate(newestLog(d), (f.from+f.to)/2))
				must(t, os.Remove(d.database()))
				makeDatabase(t, d.database(), entries-2)
			},
			state: facts.Present,
		},
		"the log ends before what is applied": {
			is: func(d directory) {
				must(t, os.Truncate(newestLog(d), last(t, newestLog(d), wal.EntryType).from))
				must(t, os.Remove(d.database()))
				makeDatabase(t, d.database(), entries)
			},
			state: facts.Unreadable, reason: facts.LogTooShort, message: "entry 120 was already committed or applied",
		},
		"the database is older than the log": {
			is:    func(d directory) { must(t, os.Remove(d.database())); makeDatabase(t, d.database(), snapshotOf-10) },
			state: facts.Unreadable, reason: facts.DatabaseTooOld, message: "has applied entries up to 50, and the log begins after entry 59",
		},
		"the leader sent a database": {
			is: func(d directory) {
				must(t, os.Rename(d.database(), d.received(snapshotOf-1)))
				makeDatabase(t, d.database(), snapshotOf-10)
			},
			state: facts.Present,
		},
		"the database is cut off": {
			is:    func(d directory) { must(t, os.Truncate(d.database(), 4*4096)) },
			state: facts.Unreadable, reason: facts.DatabaseDamaged, message: "the file has 16384 bytes",
		},
		"pages go in a circle": {
			is: func(d directory) {
				change(t, d.database(), func(data []byte) []byte {
					for page := 2; page*pageSize < len(data); page++ {
						if at := page * pageSize; binary.LittleEndian.Uint16(data[at+8:]) == branchPage {
							for i := range int(binary.LittleEndian.Uint16(data[at+10:])) {
								binary.LittleEndian.PutUint64(data[at+16+16*i+8:], uint64(page))
							}
						}
					}
					return data
				})
			},
			state: facts.Unreadable, reason: facts.DatabaseDamaged,
		},
		"a record is none": {
			is: func(d directory) {
				db, err := bolt.Open(d.database(), 0o600, nil)
				must(t, err)
				must(t, db.Update(func(tx *bolt.Tx) error {
					return tx.Bucket(keyBucket).Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x05_\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("no record"))
				}))
				must(t, db.Close())
			},
			state: facts.Unreadable, reason: facts.DatabaseDamaged, message: "the record of revision 00000000000000055f",
		},
		"a revision is none": {
			is: func(d directory) {
				db, err := bolt.Open(d.database(), 0o600, nil)
				must(t, err)
				must(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket(keyBucket).Put([]byte("x"), nil) }))
				must(t, db.Close())
			},
			state: facts.Unreadable, reason: facts.DatabaseDamaged, message: "78 is no revision",
		},
		"another program has it": {
			is: func(d directory) {
				db, err := bolt.Open(d.database(), 0o600, nil)
				must(t, err)
				t.Cleanup(func() { _ = db.Close() })
			},
			state: facts.Unreadable, reason: facts.InUse, message: "another program, most probably etcd, has",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := copied(t, whole)
			test.is(d)
			f := facts.Facts{}
			if _, err := os.Stat(d.path); err == nil {
				f = lookedAt(t, d.path)
			} else {
				f = childOf(t, d.path)
			}
			if f.State != test.state || f.Reason != test.reason || !strings.Contains(f.Message, test.message) {
				t.Errorf("it found %#v", f)
			}
			if f.State == facts.Present && (f.Index < entries-1 || f.Revision < int64(entries)-2 || !f.Checked) {
				t.Errorf("it found %#v", f)
			}
		})
	}
}

// childOf is what a child process found.
func childOf(t testing.TB, dir string) facts.Facts {
	t.Helper()
	program := reexec.Command(t.Context(), role)
	program.Args = append(program.Args, dir)
	return Child(t.Context(), program)
}

func TestTooLittleRoomIsAStateOfItsOwn(t *testing.T) {
	var found []facts.Facts
	d := made(t)
	here(d.path, 1<<60, func(f facts.Facts) { found = append(found, f) })
	f := found[len(found)-1]
	if f.State != facts.NoSpace || f.Index != entries || !f.Checked || f.NeedBytes != 1<<60 || f.FreeBytes == 0 || !strings.Contains(f.Message, "bytes of room are missing: etcd needs 1152921504606846976") {
		t.Errorf("it found %#v", f)
	}
	// What is wrong with the data matters more.
	must(t, os.RemoveAll(d.log()))
	here(d.path, 1<<60, func(f facts.Facts) { found = append(found, f) })
	if f := found[len(found)-1]; f.State != facts.Unreadable || f.Reason != facts.LogMissing {
		t.Errorf("it found %#v", f)
	}
}

// The user of etcd's containers is another one than root, whom nothing is forbidden.
func TestWhatIsForbiddenIsSaidWithWhomItBelongsTo(t *testing.T) {
	for name, forbid := range map[string]func(d directory) string{
		"the directory": func(d directory) string { return d.path },
		"the folder":    func(d directory) string { return d.member() },
		"the log":       func(d directory) string { return d.logs(t)[1] },
		"the database":  func(d directory) string { return d.database() },
	} {
		t.Run(name, func(t *testing.T) {
			d := made(t)
			path := forbid(d)
			program := reexec.Command(t.Context(), role)
			program.Args = append(program.Args, d.path)
			if os.Getuid() == 0 {
				everybody(t, d.path)
				program.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
				program.Path, program.Args[0] = forEverybody(t), "look"
			}
			must(t, os.Chmod(path, 0))
			f := Child(t.Context(), program)
			must(t, os.Chmod(path, 0o700))
			if f.State != facts.Unreadable || f.Reason != facts.NotPermitted || f.Damaged() || !strings.Contains(f.Message, path+": it belongs to user") {
				t.Errorf("it found %#v", f)
			}
		})
	}
}

func TestTheProgramStaysBelowTheLimitOfItsContainer(t *testing.T) {
	d := made(t)
	for limit, want := range map[int64]uint64{
		math.MaxInt64: 512<<20 + 8<<10, 4 << 30: 512<<20 + 8<<10, 600 << 20: 450 << 20, 64 << 20: leastMemory, 0: leastMemory,
	} {
		if got := maxMemory(d, limit); got != want && got-want > 1<<20 {
			t.Errorf("with a limit of %d it may have %d, not %d", limit, got, want)
		}
	}
	program := reexec.Command(t.Context(), role)
	program.Args, program.Env = append(program.Args, d.path), append(program.Environ(), "GOMEMLIMIT=64MiB")
	if f := Child(t.Context(), program); f.State != facts.Present || !f.Checked {
		t.Errorf("with the least memory it found %#v", f)
	}
}

// everybody lets every user read and write a folder, and get there.
func everybody(t *testing.T, folder string) {
	t.Helper()
	must(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error { return errors.Join(err, os.Chmod(path, 0o777)) }))
	for parent := filepath.Dir(folder); parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		must(t, os.Chmod(parent, 0o755))
	}
}

// forEverybody is a copy of this program that every user can run.
func forEverybody(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	folder := t.TempDir()
	path := filepath.Join(folder, "look")
	must(t, os.WriteFile(path, self, 0o755))
	everybody(t, folder)
	return path
}

func TestWhatAProgramSaysLastCounts(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   facts.Facts
	}{
		"a report and an end":    {`echo '{"state":"Empty"}'`, facts.Facts{State: facts.Empty}},
		"the last of two":        {`echo '{"state":"Present"}'; echo '{"state":"Present","checked":true}'`, facts.Facts{State: facts.Present, Checked: true}},
		"no report":              {`true`, facts.Facts{State: facts.Unreadable, Reason: facts.Unknown, Message: "the program that looks ended early"}},
		"a crash before":         {`echo 'panic: oh'>&2; exit 2`, facts.Facts{State: facts.Unreadable, Reason: facts.Unknown, Message: "exit status 2: oh"}},
		"a crash after a report": {`echo '{"state":"Present","index":7}'; echo 'panic: page 5: oh'>&2; exit 2`, facts.Facts{State: facts.Unreadable, Reason: facts.DatabaseDamaged, Index: 7, Message: "the database is damaged: page 5: oh"}},
		"a page that is away":    {`echo '{"state":"Present"}'; printf 'unexpected fault address 0x1\nfatal error: fault\n'>&2; exit 2`, facts.Facts{State: facts.Unreadable, Reason: facts.DatabaseDamaged, Message: "unexpected fault address 0x1"}},
		"a check without memory": {`echo '{"state":"Present","index":7}'; echo 'fatal error: runtime: out of memory'>&2; exit 2`, facts.Facts{State: facts.Present, Index: 7}},
		"no memory to read":      {`echo '{}'; echo 'fatal error: runtime: out of memory'>&2; exit 2`, facts.Facts{State: facts.Unreadable, Reason: facts.DatabaseDamaged, Message: "out of memory"}},
		"killed":                 {`echo '{"state":"Present","index":7}'; kill -9 $$`, facts.Facts{State: facts.Present, Index: 7}},
		"very many words":        {`echo '{"state":"Present"}'; yes | head -c 1000000 >&2; exit 2`, facts.Facts{State: facts.Unreadable, Reason: facts.DatabaseDamaged, Message: ": y"}},
		"no time for a report":   {`exec sleep 60`, facts.Facts{State: facts.Unreadable, Reason: facts.NotFinished, Message: "the time did not suffice"}},
		"killed before a state":  {`echo '{}'; kill -9 $$`, facts.Facts{State: facts.Unreadable, Reason: facts.Unknown, Message: "signal: killed"}},
		"no time for the end":    {`echo '{"state":"Present","index":7}'; exec sleep 60`, facts.Facts{State: facts.Present, Index: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if strings.HasPrefix(name, "no time") {
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			f := Child(ctx, exec.CommandContext(ctx, "sh", "-c", test.script))
			if !strings.Contains(f.Message, test.want.Message) {
				t.Errorf("it says %q", f.Message)
			}
			f.Message = test.want.Message
			if f != test.want {
				t.Errorf("it found %#v", f)
			}
		})
	}
	if f := Child(t.Context(), exec.CommandContext(t.Context(), "/nowhere/at/all")); f.Reason != facts.Unknown || !strings.Contains(f.Message, "start the program that looks") {
		t.Errorf("it found %#v", f)
	}
}

// FuzzDirectories changes bytes of any file of a directory, and cuts it off. Whatever is found, there is a finding, in a state
// that the manager knows, and nothing is written.
func FuzzDirectories(f *testing.F) {
	whole := made(f)
	f.Add(0, int64(0), []byte{}, int64(0))
	f.Add(0, int64(4096+16), []byte{1}, int64(0))
	f.Add(0, int64(3*4096), []byte{9, 9, 9, 9, 9, 9, 9, 9}, int64(0))
	f.Add(0, int64(0), []byte{}, int64(5*4096))
	f.Add(1, int64(7), []byte{1}, int64(0))
	f.Add(3, int64(700), []byte{1}, int64(0))
	f.Fuzz(func(t *testing.T, file int, at int64, bytes []byte, size int64) {
		d := copied(t, whole)
		snapshots, err := filepath.Glob(filepath.Join(d.snapshots(), "*.snap"))
		must(t, err)
		files := append(append([]string{d.database()}, snapshots...), d.logs(t)...)
		damageFile(t, files[uint(file)%uint(len(files))], at, bytes, size) //nolint:gosec // Any number will do.
		found := lookedAt(t, d.path)
		if found.Reason == facts.Unknown {
			t.Errorf("it found %#v", found)
		}
		message, err := found.Encode()
		must(t, err)
		if again, err := facts.Decode(string(message)); err != nil || again.State != found.State || again.Index != found.Index {
			t.Errorf("the manager reads %#v: %v", again, err)
		}
	})
}
