//go:build envtest

package look

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// patience bounds each wait for etcd.
const patience = 30 * time.Second

// member is a running etcd with one member.
type member struct {
	t       testing.TB
	command *exec.Cmd
	client  *clientv3.Client
	ended   chan struct{}
	said    *output.Buffer
}

// launch starts etcd as the members of control planes are started: alone it must not begin without data, unless it founds.
func launch(t testing.TB, d directory, founds bool) *member {
	t.Helper()
	state := "existing"
	if founds {
		state = "new"
	}
	client, peer := "http://"+loopback.Free(t).String(), "http://"+loopback.Free(t).String()
	m := &member{t: t, ended: make(chan struct{}), said: &output.Buffer{}}
	m.command = exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), "--name=one", "--data-dir="+d.path,
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=one="+peer, "--initial-cluster-state="+state, "--snapshot-count=40", "--feature-gates=InitialCorruptCheck=true",
		"--listen-metrics-urls=", "--log-level=warn", "--heartbeat-interval=20", "--election-timeout=200")
	m.command.Stderr, m.command.Stdout = m.said, m.said
	must(t, m.command.Start())
	go func() {
		_ = m.command.Wait()
		close(m.ended)
	}()
	t.Cleanup(m.kill)
	var err error
	m.client, err = clientv3.New(clientv3.Config{Endpoints: []string{client}, Logger: zap.NewNop(), DialTimeout: patience})
	must(t, err)
	t.Cleanup(func() { _ = m.client.Close() })
	return m
}

func (m *member) kill() {
	_ = m.command.Process.Kill()
	<-m.ended
}

func (m *member) stop() {
	_ = m.command.Process.Signal(syscall.SIGTERM)
	<-m.ended
}

// outcome is what becomes of an etcd that is started.
type outcome string

const (
	works outcome = "answers"
	hangs outcome = "runs and does not answer"
	ends  outcome = "ends"
)

// outcome waits until etcd answers, or ends, or did neither for a while.
func (m *member) outcome(while time.Duration) outcome {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), while)
	defer cancel()
	go func() {
		select {
		case <-m.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := m.client.Put(ctx, "a", "b")
	select {
	case <-m.ended:
		return ends
	default:
	}
	if err != nil {
		return hangs
	}
	return works
}

// ready waits until etcd answers.
func (m *member) ready() *member {
	m.t.Helper()
	if got := m.outcome(patience); got != works {
		m.t.Fatalf("etcd %s\n%s", got, m.said)
	}
	return m
}

func (m *member) status() *clientv3.StatusResponse {
	m.t.Helper()
	status, err := m.client.Status(m.t.Context(), m.client.Endpoints()[0])
	must(m.t, err)
	return status
}

// tookOver is the status of etcd once it has taken over what an older one left, which it does every few seconds, and
// has applied all that its log has.
func (m *member) tookOver() *clientv3.StatusResponse {
	m.t.Helper()
	deadline := time.After(patience)
	for {
		status := m.status()
		if strings.HasPrefix(status.StorageVersion, "3.6.") && status.RaftAppliedIndex == status.RaftIndex {
			return status
		}
		select {
		case <-deadline:
			m.t.Fatalf("etcd does not take over the database\n%s", m.said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// write writes values of which each has whole sectors.
func (m *member) write(count int) {
	m.t.Helper()
	for i := range count {
		_, err := m.client.Put(m.t.Context(), fmt.Sprintf("key-%d", i%37), strings.Repeat(fmt.Sprintf("%08d", i), 250))
		must(m.t, err)
	}
}

// history is what all cases begin with: the directory of a member that ended by itself, and the same one after more writes.
type history struct {
	before, after directory
	// said is what etcd said last of both.
	saidBefore, saidAfter *clientv3.StatusResponse
}

func newHistory(t *testing.T) history {
	t.Helper()
	h := history{before: directory{filepath.Join(t.TempDir(), "data")}}
	m := launch(t, h.before, true)
	m.ready()
	m.write(110)
	_, err := m.client.Delete(t.Context(), "key-1")
	must(t, err)
	_, err = m.client.Compact(t.Context(), 60, clientv3.WithCompactPhysical())
	must(t, err)
	m.write(7)
	h.saidBefore = m.tookOver()
	m.stop()
	h.after = sparse(t, h.before)
	m = launch(t, h.after, false)
	m.ready()
	m.write(20)
	h.saidAfter = m.tookOver()
	m.stop()
	return h
}

// sparse is a copy in which zeros take no room: a file of the log is 64 MB of them.
func sparse(t testing.TB, from directory) directory {
	t.Helper()
	to := directory{filepath.Join(t.TempDir(), "data")}
	must(t, filepath.WalkDir(from.path, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from.path, path)
		if err != nil || entry.IsDir() {
			return os.MkdirAll(filepath.Join(to.path, relative), 0o700)
		}
		return copySparse(path, filepath.Join(to.path, relative))
	}))
	return to
}

func copySparse(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, bytes.TrimRight(data, "\x00"), 0o600); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(data)))
}

// told compares facts with what etcd said last.
func told(t *testing.T, f facts.Facts, said *clientv3.StatusResponse) {
	t.Helper()
	want := facts.Facts{
		State: facts.Present, ClusterID: types.ID(said.Header.ClusterId).String(), MemberID: types.ID(said.Header.MemberId).String(),
		Term: said.RaftTerm, Index: said.RaftIndex, Commit: f.Commit, Applied: said.RaftAppliedIndex, Revision: said.Header.Revision,
		StorageVersion: "3.6", Checked: true, DatabaseBytes: f.DatabaseBytes, FreeBytes: f.FreeBytes, NeedBytes: needed,
	}
	// The file has room that etcd does not count.
	if f.DatabaseBytes < said.DbSize {
		t.Errorf("the database has %d bytes, and etcd says %d", f.DatabaseBytes, said.DbSize)
	}
	if f != want {
		t.Errorf("it found this, and etcd said otherwise:\n%s", cmp.Diff(want, f))
	}
}

func TestFactsAreWhatEtcdSaid(t *testing.T) {
	h := newHistory(t)
	told(t, lookedAt(t, h.before.path), h.saidBefore)
	told(t, lookedAt(t, h.after.path), h.saidAfter)

	t.Run("after a defragmentation", func(t *testing.T) {
		d := sparse(t, h.after)
		m := launch(t, d, false)
		m.ready()
		_, err := m.client.Defragment(t.Context(), m.client.Endpoints()[0])
		must(t, err)
		said := m.tookOver()
		m.stop()
		told(t, lookedAt(t, d.path), said)
	})
	t.Run("of the storage version of 3.5, and after 3.6 took it over", func(t *testing.T) {
		d := ofEtcd35(t)
		f := lookedAt(t, d.path)
		m := launch(t, d, false).ready()
		said := m.status()
		if f != factsOfEtcd35(f) || said.Header.Revision != f.Revision+1 || said.RaftIndex <= f.Index {
			t.Errorf("it found %#v, and etcd says %#v", f, said)
		}
		m.write(50)
		said = m.tookOver()
		m.stop()
		told(t, lookedAt(t, d.path), said)
	})
	t.Run("while it runs", func(t *testing.T) {
		d := sparse(t, h.after)
		m := launch(t, d, false)
		m.ready()
		// etcd goes on writing.
		program := reexec.Command(t.Context(), role)
		program.Args = append(program.Args, d.path)
		f := Child(t.Context(), program)
		if f.State != facts.Unreadable || f.Reason != facts.InUse || !strings.Contains(f.Message, "etcd") || f.Damaged() {
			t.Errorf("it found %#v", f)
		}
		m.stop()
	})
	t.Run("after it was killed", func(t *testing.T) {
		d := sparse(t, h.after)
		m := launch(t, d, false)
		m.ready()
		m.write(50)
		said := m.status()
		m.kill()
		f := lookedAt(t, d.path)
		most := f.Revision + int64(f.Index-f.Applied)
		if f.State != facts.Present || f.Index != said.RaftIndex || f.Term != said.RaftTerm || f.Revision > said.Header.Revision || most < said.Header.Revision {
			t.Errorf("it found %#v, and etcd said %+v", f, said)
		}
	})
}

// Each damage, what is found, and whether etcd itself starts from it.
func TestDamageIsFoundAndEtcdNoticesWhatItIsSaidTo(t *testing.T) {
	h := newHistory(t)
	newest := func(d directory) string { return d.logs(t)[0] }
	// powerLoss is the log of the later directory with the database of the earlier one: what is not in the database was
	// written a moment ago.
	powerLoss := func(d directory) {
		must(t, os.Remove(newest(d)))
		must(t, copySparse(newest(h.after), filepath.Join(d.log(), filepath.Base(newest(h.after)))))
	}
	empty := func(d directory) { must(t, os.RemoveAll(d.member())) }
	for name, test := range map[string]struct {
		damage func(d directory)
		state  facts.State
		reason facts.Reason
		torn   bool
		// founds is true when the configuration lets etcd found a cluster.
		founds bool
		etcd   outcome
	}{
		"nothing": {damage: func(directory) {}, state: facts.Present, etcd: works},
		"power lost before the database was written": {
			damage: powerLoss, state: facts.Present, etcd: works,
		},
		"power lost, and the last record is half written": {
			damage: func(d directory) {
				powerLoss(d)
				f := last(t, newest(d), wal.EntryType)
				must(t, os.Truncate(newest(d), (f.from+f.to)/2))
			},
			state: facts.Present, etcd: works, torn: true,
		},
		"power lost, and the last record lacks a sector": {
			damage: func(d directory) {
				powerLoss(d)
				f := last(t, newest(d), wal.EntryType)
				change(t, newest(d), func(data []byte) []byte {
					clear(data[(f.from+600)/512*512:])
					return data
				})
			},
			state: facts.Present, etcd: works, torn: true,
		},
		"the log is cut off before what the database has": {
			damage: func(d directory) {
				f := last(t, newest(d), wal.EntryType)
				must(t, os.Truncate(newest(d), (f.from+f.to)/2))
			},
			state: facts.Unreadable, reason: facts.LogTooShort, etcd: works, torn: true,
		},
		"a byte of a record's length in the log": {
			damage: func(d directory) {
				all := frames(t, newest(d))
				flip(t, newest(d), all[len(all)-20].from+5)
			},
			state: facts.Unreadable, reason: facts.LogTooShort, etcd: hangs, torn: true,
		},
		"a byte of the log": {
			damage: func(d directory) {
				f := last(t, newest(d), wal.EntryType)
				flip(t, newest(d), f.from+100)
			},
			state: facts.Unreadable, reason: facts.LogDamaged, etcd: ends,
		},
		"a byte of the log's beginning": {
			damage: func(d directory) {
				flip(t, newest(d), 2000)
			},
			state: facts.Unreadable, reason: facts.LogDamaged, etcd: ends,
		},
		"zeros in place of the log": {
			damage: func(d directory) { change(t, newest(d), func(data []byte) []byte { clear(data); return data }) },
			state:  facts.Unreadable, reason: facts.LogDamaged, etcd: ends,
		},
		"no log": {
			damage: func(d directory) { must(t, os.RemoveAll(d.log())) },
			state:  facts.Unreadable, reason: facts.LogMissing, etcd: ends,
		},
		"no log, and a cluster may be founded": {
			damage: func(d directory) { must(t, os.RemoveAll(d.log())) },
			state:  facts.Unreadable, reason: facts.LogMissing, founds: true, etcd: hangs,
		},
		"no database": {
			damage: func(d directory) { must(t, os.Remove(d.database())) },
			state:  facts.Unreadable, reason: facts.DatabaseMissing, etcd: ends,
		},
		"a database of no bytes": {
			damage: func(d directory) { must(t, os.Truncate(d.database(), 0)) },
			state:  facts.Unreadable, reason: facts.DatabaseMissing, etcd: ends,
		},
		"the newest snapshot is damaged": {
			damage: func(d directory) {
				names := snapshotFiles(t, d)
				flip(t, names[len(names)-1], 9)
			},
			state: facts.Present, etcd: works,
		},
		"an older database": {
			damage: func(d directory) {
				m := launch(t, d, false)
				m.ready()
				m.write(90)
				m.stop()
				must(t, copySparse(h.before.database(), d.database()))
			},
			state: facts.Unreadable, reason: facts.DatabaseTooOld, etcd: ends,
		},
		"an older database, and the one that the leader sent": {
			damage: func(d directory) {
				m := launch(t, d, false)
				m.ready()
				m.write(90)
				m.stop()
				var index uint64
				names := snapshotFiles(t, d)
				_, err := fmt.Sscanf(filepath.Base(names[len(names)-1])[17:], "%016x", &index)
				must(t, err)
				must(t, os.Rename(d.database(), d.received(index)))
				must(t, copySparse(h.before.database(), d.database()))
			},
			state: facts.Present, etcd: works,
		},
		"one of the two meta pages": {
			damage: func(d directory) { flip(t, d.database(), 16+48) },
			state:  facts.Present, etcd: works,
		},
		"both meta pages": {
			damage: func(d directory) { flip(t, d.database(), 16+48); flip(t, d.database(), pageSize+16+48) },
			state:  facts.Unreadable, reason: facts.DatabaseDamaged, etcd: ends,
		},
		"the headers of all pages of records": {
			damage: func(d directory) {
				change(t, d.database(), func(data []byte) []byte {
					for at := 2 * pageSize; at+pageSize <= len(data); at += pageSize {
						data[at+8] ^= 0x10
					}
					return data
				})
			},
			state: facts.Unreadable, reason: facts.DatabaseDamaged, etcd: ends,
		},
		"a key of a branch page": {
			damage: func(d directory) {
				change(t, d.database(), func(data []byte) []byte {
					for at := 2 * pageSize; at+pageSize <= len(data); at += pageSize {
						page := data[at : at+pageSize]
						if count := int(binary.LittleEndian.Uint16(page[10:])); binary.LittleEndian.Uint16(page[8:]) == branchPage && count > 2 {
							element := 16 + 16*(count/2)
							page[element+int(binary.LittleEndian.Uint32(page[element:]))] ^= 0x7f
						}
					}
					return data
				})
			},
			state: facts.Unreadable, reason: facts.DatabaseDamaged, etcd: ends,
		},
		"a database that is cut off": {
			damage: func(d directory) { must(t, os.Truncate(d.database(), 5*pageSize)) },
			state:  facts.Unreadable, reason: facts.DatabaseDamaged, etcd: ends,
		},
		"zeros in place of the database's pages": {
			damage: func(d directory) {
				change(t, d.database(), func(data []byte) []byte { clear(data[2*pageSize:]); return data })
			},
			state: facts.Unreadable, reason: facts.DatabaseDamaged, etcd: ends,
		},
		"nothing at all":                        {damage: empty, state: facts.Empty, etcd: ends},
		"nothing, and a cluster may be founded": {damage: empty, state: facts.Empty, founds: true, etcd: works},
		"killed while it founded a cluster": {
			damage: func(d directory) {
				empty(d)
				must(t, os.MkdirAll(d.snapshots(), 0o700))
				must(t, os.MkdirAll(d.log()+".tmp", 0o700))
				db, err := bolt.Open(d.database(), 0o600, &bolt.Options{NoFreelistSync: true})
				must(t, err)
				must(t, db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(metaBucket); return err }))
				must(t, db.Close())
			},
			state: facts.Empty, founds: true, etcd: works,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := sparse(t, h.before)
			test.damage(d)
			f := lookedAt(t, d.path)
			t.Log(f)
			if f.State != test.state || f.Reason != test.reason || f.TornTail != test.torn {
				t.Errorf("it found %#v", f)
			}
			m := launch(t, d, test.founds)
			while := patience
			if test.etcd == hangs {
				while = 5 * time.Second
			}
			got := m.outcome(while)
			if got != test.etcd {
				t.Errorf("etcd %s\n%s", got, m.said)
			}
			if f.State == facts.Present {
				said := m.status()
				if f.MemberID != types.ID(said.Header.MemberId).String() || f.Revision > said.Header.Revision || f.Index > said.RaftIndex {
					t.Errorf("it found %#v, and etcd says %#v", f, said)
				}
			}
			if f.Damaged() && (got == ends) == f.Unnoticed() && f.Reason != facts.LogMissing {
				t.Errorf("etcd %s, and facts say that it takes no notice: %t", got, f.Unnoticed())
			}
		})
	}
}

func snapshotFiles(t testing.TB, d directory) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(d.snapshots(), "*.snap"))
	must(t, err)
	if len(names) < 2 {
		t.Fatalf("there are only the snapshots %v", names)
	}
	return names
}
