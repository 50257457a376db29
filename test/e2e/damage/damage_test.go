package damage

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/look"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// looks is the role of the program that looks at a directory.
const looks = "looks"

func TestMain(m *testing.M) {
	if reexec.Role() != looks {
		os.Exit(m.Run())
	}
	if err := look.Main(os.Args[1], 1, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const entries = 40

// made is the data directory of a member that nobody ran.
func made(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "data")
	must(t, os.MkdirAll(filepath.Join(directory, "member", "snap"), 0o700))
	metadata := &etcdserverpb.Metadata{NodeID: 0xabc, ClusterID: 0xdef}
	raw, err := metadata.Marshal()
	must(t, err)
	log, err := wal.Create(zap.NewNop(), filepath.Join(directory, "member", "wal"), raw)
	must(t, err)
	for i := uint64(1); i <= entries; i++ {
		must(t, log.Save(raftpb.HardState{Term: 2, Vote: 1, Commit: i - 1}, []raftpb.Entry{{Term: 2, Index: i, Data: []byte(strings.Repeat("x", 200))}}))
	}
	must(t, log.Close())
	db, err := bolt.Open(database(directory), 0o600, &bolt.Options{NoFreelistSync: true})
	must(t, err)
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	must(t, db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucket(keys)
		must(t, err)
		for i := uint64(2); i < entries; i++ {
			// The key is written in two revisions.
			pair := mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/%d", i%(entries/2)), Value: fmt.Appendf(nil, "k8s value AAAA of %d%s", i, strings.Repeat(".", 300)), ModRevision: int64(i)} //nolint:gosec // Small.
			raw, err := pair.Marshal()
			must(t, err)
			must(t, bucket.Put(append(append(number(i), '_'), number(0)...), raw))
		}
		meta, err := tx.CreateBucket([]byte("meta"))
		must(t, err)
		must(t, meta.Put([]byte("consistent_index"), number(entries-1)))
		return meta.Put([]byte("term"), number(2))
	}))
	must(t, db.Close())
	return directory
}

// seen is what the agent of etcd finds.
func seen(t *testing.T, directory string) facts.Facts {
	t.Helper()
	program := reexec.Command(t.Context(), looks)
	program.Args = append(program.Args, directory)
	return look.Child(t.Context(), program)
}

func TestTheAgentOfEtcdFindsEachDamageThatEtcdRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		do     func(directory string) error
		state  facts.State
		reason facts.Reason
	}{
		"none":                    {func(string) error { return nil }, facts.Present, ""},
		"all is removed":          {Wipe, facts.Empty, ""},
		"bytes of the log":        {Log, facts.Unreadable, facts.LogDamaged},
		"bytes of the database":   {Database, facts.Unreadable, facts.DatabaseDamaged},
		"a value, which is whole": {func(d string) error { return Value(d, "/registry/7", "AAAA", "BBBB") }, facts.Present, ""},
	} {
		t.Run(name, func(t *testing.T) {
			directory := made(t)
			must(t, test.do(directory))
			if f := seen(t, directory); f.State != test.state || f.Reason != test.reason {
				t.Errorf("it finds %s, want %s (%s)", f, test.state, test.reason)
			}
		})
	}
}

func TestTheValueOfTheNewestRevisionChangesAndNoOther(t *testing.T) {
	directory := made(t)
	must(t, Value(directory, "/registry/7", "AAAA", "BBBB"))
	db, err := bolt.Open(database(directory), 0, &bolt.Options{ReadOnly: true})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	changed := map[int64]string{}
	must(t, db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(keys).ForEach(func(_, data []byte) error {
			var pair mvccpb.KeyValue
			must(t, pair.Unmarshal(data))
			if !strings.Contains(string(pair.Value), "AAAA") {
				changed[pair.ModRevision] = string(pair.Key)
			}
			return nil
		})
	}))
	if len(changed) != 1 || changed[27] != "/registry/7" {
		t.Errorf("changed are %v", changed)
	}
}

func TestWhatIsNotThereIsNotDamaged(t *testing.T) {
	directory := made(t)
	for name, do := range map[string]func() error{
		"a key":               func() error { return Value(directory, "/registry/none", "AAAA", "BBBB") },
		"a text of the value": func() error { return Value(directory, "/registry/7", "CCCC", "BBBB") },
		"the same text":       func() error { return Value(directory, "/registry/7", "AAAA", "AAAA") },
		"a longer text":       func() error { return Value(directory, "/registry/7", "AAAA", "BBBBB") },
		"a log":               func() error { return Log(t.TempDir()) },
		"a database":          func() error { return Database(t.TempDir()) },
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := Wipe(filepath.Join(directory, "none")); err != nil {
		t.Error(err)
	}
	if f := seen(t, directory); f.State != facts.Present {
		t.Errorf("it finds %s", f)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
