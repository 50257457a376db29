//go:build lab

package disk

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// Roles of programs that use the disk: the process that serves it must not.
const (
	// files does what it is told, and says what came of it.
	files = "files"
	// member writes as a member of etcd does, and says what is written for good.
	member = "member"
)

// patience bounds a test: a program that hangs is killed then, and the disk's connection ended.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	switch reexec.Role() {
	case files:
		// This process goes there itself: where the one that serves the disk would start it there, it would stand still meanwhile.
		if err := os.Chdir(os.Args[1]); err != nil {
			fmt.Println(err)
		}
		useFiles()
	case member:
		if err := writeAsMember(os.Args[1]); err != nil {
			fmt.Println(err)
		}
	default:
		os.Exit(m.Run())
	}
}

// useFiles does a command a line. Files stay open.
func useFiles() {
	open := map[string]*os.File{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		argument := strings.Fields(lines.Text())
		var err error
		if open[argument[1]] == nil && argument[0] != "room" {
			open[argument[1]], err = os.OpenFile(argument[1], os.O_RDWR|os.O_CREATE, 0o600)
		}
		said := "ok"
		if err == nil {
			said, err = use(open[argument[1]], argument)
		}
		if err != nil {
			said = err.Error()
		}
		fmt.Println(said)
	}
}

func use(file *os.File, argument []string) (said string, err error) {
	number := func(i int) int64 { n, _ := strconv.ParseInt(argument[i], 10, 64); return n }
	switch argument[0] {
	case "write":
		_, err = file.WriteAt([]byte(argument[3]), number(2))
	case "sync":
		err = file.Sync()
	case "cut":
		err = file.Truncate(number(2))
	case "allocate":
		err = unix.Fallocate(int(file.Fd()), 0, 0, number(2))
	case "move":
		err = os.Rename(argument[1], argument[2])
	case "room":
		var room unix.Statfs_t
		err = unix.Statfs(argument[1], &room)
		return strconv.FormatBool(room.Bavail > 0), err
	}
	return "ok", err
}

// record is as long as many that etcd writes.
var record = strings.Repeat("x", 3000)

// writeAsMember writes entries to a log and keys to a database until that fails.
func writeAsMember(directory string) error {
	log, err := wal.Create(zap.NewNop(), filepath.Join(directory, "wal"), nil)
	if err != nil {
		return err
	}
	db, err := bolt.Open(filepath.Join(directory, "db"), 0o600, nil)
	if err != nil {
		return err
	}
	for i := uint64(1); ; i++ {
		if err := log.Save(raftpb.HardState{Term: 1, Commit: i}, []raftpb.Entry{{Term: 1, Index: i, Data: []byte(record)}}); err != nil {
			return err
		}
		err := db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("keys"))
			if err != nil {
				return err
			}
			return bucket.Put(fmt.Appendf(nil, "%08d", i), []byte(record))
		})
		if err != nil {
			return err
		}
		fmt.Println("acknowledged", i)
	}
}

// covered is a disk over a directory, and a program that uses it.
type covered struct {
	*Disk
	directory string
	in        io.Writer
	out       *bufio.Scanner
}

func cover(t *testing.T, role string) *covered {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	c := &covered{directory: t.TempDir()}
	at := t.TempDir()
	var err error
	c.Disk, err = Cover(Options{Directory: c.directory, At: at, In: func(do func() error) error { return do() }})
	must(t, err)
	program := reexec.Command(ctx, role)
	program.Args = append(program.Args, at)
	program.Stderr = os.Stderr
	c.in, err = program.StdinPipe()
	must(t, err)
	out, err := program.StdoutPipe()
	must(t, err)
	c.out = bufio.NewScanner(out)
	// The connection ends first: a program that waits for the disk cannot be killed.
	t.Cleanup(func() {
		must(t, c.Close())
		cancel()
		_ = program.Wait()
	})
	must(t, program.Start())
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says has the program do something, and compares what it says.
func (c *covered) says(t *testing.T, command, want string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, command)
	must(t, err)
	if !c.out.Scan() {
		t.Fatalf("%s: the program ended", command)
	}
	if got := c.out.Text(); !strings.HasSuffix(got, want) {
		t.Errorf("%s: %s, not %s", command, got, want)
	}
}

// has compares a file of the directory.
func (c *covered) has(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(c.directory, name))
	must(t, err)
	if string(got) != want {
		t.Errorf("%s has %q, not %q", name, got, want)
	}
}

func TestALossOfPowerTakesWhatWasNotSynced(t *testing.T) {
	for name, test := range map[string]struct {
		commands []string
		files    map[string]string
	}{
		"a file that was synced stays":                {[]string{"write a 0 hello", "sync a"}, map[string]string{"a": "hello"}},
		"a file that was not synced is empty":         {[]string{"write a 0 hello"}, map[string]string{"a": ""}},
		"what was written after it goes":              {[]string{"write a 0 hello", "sync a", "write a 2 LLO-more", "write a 0 J"}, map[string]string{"a": "hello"}},
		"what was cut comes back":                     {[]string{"write a 0 hello", "sync a", "cut a 2", "write a 1 x"}, map[string]string{"a": "hello"}},
		"what was made longer is as short":            {[]string{"write a 0 hello", "sync a", "allocate a 100", "write a 50 x"}, map[string]string{"a": "hello"}},
		"another file that was synced does not count": {[]string{"write a 0 one", "write b 0 two", "sync b"}, map[string]string{"a": "", "b": "two"}},
		"a file has its new name":                     {[]string{"write a 0 hello", "sync a", "move a b", "write a 5 !"}, map[string]string{"b": "hello"}},
		"a file that was synced under its new name":   {[]string{"write a 0 hello", "move a b", "sync a"}, map[string]string{"b": "hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cover(t, files)
			for _, command := range test.commands {
				c.says(t, command, "ok")
			}
			must(t, c.LosePower())
			for name, want := range test.files {
				c.has(t, name, want)
			}
			c.says(t, "write a 0 late", "transport endpoint is not connected")
		})
	}
}

func TestWithoutALossOfPowerAllStays(t *testing.T) {
	c := cover(t, files)
	c.says(t, "write a 0 hello", "ok")
	must(t, c.Close())
	c.has(t, "a", "hello")
	c.says(t, "sync a", "transport endpoint is not connected")
	must(t, c.LosePower())
	c.has(t, "a", "hello")
}

func TestADiskHasTroubleUntilItIsMended(t *testing.T) {
	c := cover(t, files)
	c.says(t, "write a 0 hello", "ok")
	for name, test := range map[string]struct {
		trouble    func()
		want, room string
	}{
		"it fails":   {c.Fail, "input/output error", "true"},
		"it is full": {c.Fill, "no space left on device", "false"},
	} {
		test.trouble()
		for _, command := range []string{"write a 0 HELLO", "sync a", "allocate a 100", "cut a 1", "write b 0 new"} {
			if c.says(t, command, test.want); t.Failed() {
				t.Fatal(name)
			}
		}
		c.says(t, "room .", test.room)
		c.has(t, "a", "hello")
		c.Mend()
	}
	c.says(t, "write b 0 new", "ok")
	c.says(t, "room .", "true")

	const longer = 300 * time.Millisecond
	c.Slow(longer)
	began := time.Now()
	c.says(t, "sync a", "ok")
	if took := time.Since(began); took < longer {
		t.Errorf("a sync takes %s", took)
	}
}

// It reads its database by a memory map.
func TestAMemberOfEtcdLosesNothingThatItAcknowledged(t *testing.T) {
	c := cover(t, member)
	const enough = 60
	acknowledged := 0
	var last string
	for c.out.Scan() {
		last = c.out.Text()
		if _, err := fmt.Sscanf(last, "acknowledged %d", &acknowledged); err == nil && acknowledged == enough {
			go func() { _ = c.LosePower() }()
		}
	}
	if acknowledged < enough {
		t.Fatalf("%d writes were acknowledged: %s", acknowledged, last)
	}
	must(t, c.LosePower())

	log, err := wal.Open(zap.NewNop(), filepath.Join(c.directory, "wal"), walpb.Snapshot{})
	must(t, err)
	_, _, entries, err := log.ReadAll()
	must(t, err)
	must(t, log.Close())
	if len(entries) < acknowledged {
		t.Errorf("the log has %d entries, %d writes were acknowledged", len(entries), acknowledged)
	}
	db, err := bolt.Open(filepath.Join(c.directory, "db"), 0o600, nil)
	must(t, err)
	must(t, db.View(func(tx *bolt.Tx) error {
		if keys := tx.Bucket([]byte("keys")).Stats().KeyN; keys < acknowledged {
			t.Errorf("the database has %d keys, %d writes were acknowledged", keys, acknowledged)
		}
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	}))
	must(t, db.Close())
}
