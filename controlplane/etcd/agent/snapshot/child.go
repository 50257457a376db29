package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	utl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Program starts this program again as one that calls Main with its standard input and output.
type Program func(ctx context.Context) *exec.Cmd

// ThisProgram is the one that runs, with arguments by which it calls Main.
func ThisProgram(args ...string) (Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, args...) }, nil
}

// order is what a child process shall restore.
type order struct {
	// Plain is the file of what etcd sent, Dir the data directory to make.
	Plain, Dir string
	// Name, PeerURL and Token are those of the only member of the new cluster.
	Name, PeerURL, Token string
	// Bump raises the revision above that of the snapshot and above Highest, and marks all before it as compacted.
	Bump    bool
	Highest int64
}

// done is what a child process restored, or why it did not.
type done struct {
	// Revision is that of the snapshot, Raised the one that was made of it.
	Revision, Raised int64
	// Failed is empty when all went well. Damage says that it is the snapshot that is wrong.
	Failed string
	Damage bool
}

// bump is how far a revision is raised above the highest one that is known: what was written after the snapshot, and is lost,
// had lower ones.
const bump = 1_000_000_000

// What bounds a child that reads a database which somebody made: circles of pages, and sizes that are lies.
const (
	maxStack    = 64 << 20
	leastMemory = 512 << 20
)

// Main restores what it is told, and is all that its program does. A damaged database may end it at any time.
func Main(in io.Reader, out io.Writer) error {
	var d done
	o, err := begin(in)
	if err == nil {
		d, err = o.carryOut()
		var path *fs.PathError
		var number syscall.Errno
		d.Damage = err != nil && !errors.As(err, &path) && !errors.As(err, &number)
	}
	if err != nil {
		d.Failed = err.Error()
	}
	return json.NewEncoder(out).Encode(d)
}

// begin reads what to do, and bounds this program.
func begin(in io.Reader) (o order, err error) {
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return o, fmt.Errorf("read what to restore: %w", err)
	}
	info, err := os.Stat(o.Plain)
	if err != nil {
		return o, err
	}
	debug.SetMaxStack(maxStack)
	most := uint64(leastMemory + info.Size()/4) //nolint:gosec // It is not negative.
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return o, fmt.Errorf("bound the memory of this program: %w", err)
	}
	return o, nil
}

func (o order) carryOut() (done, error) {
	last, newest, err := revisions(o.Plain)
	if err != nil {
		return done{}, err
	}
	d := done{Revision: newest, Raised: newest}
	config := utl.RestoreConfig{
		SnapshotPath: o.Plain, OutputDataDir: o.Dir, Name: o.Name, PeerURLs: []string{o.PeerURL}, InitialCluster: o.Name + "=" + o.PeerURL, InitialClusterToken: o.Token,
	}
	if o.Bump {
		highest := max(newest, o.Highest)
		if highest > math.MaxInt64/2 {
			return done{}, fmt.Errorf("the revision %d is too high to be raised", highest)
		}
		d.Raised = highest + bump
		// etcdutl counts from the last record.
		config.RevisionBump, config.MarkCompacted = uint64(d.Raised-last), true //nolint:gosec // Raised is larger.
	}
	if err := utl.NewV3(logger()).Restore(config); err != nil {
		return done{}, err
	}
	return d, disarm(filepath.Join(o.Dir, "member", "snap", "db"))
}

// disarm ends the alarms NOSPACE that a restored database has of the former members. A restore waits until the new member is well, which it is
// not with an alarm, and the operator ends no alarm before the restore is over. An etcd that still has no room raises an alarm of its own.
func disarm(database string) error {
	db := backend.NewDefaultBackend(logger(), database)
	alarms := schema.NewAlarmBackend(logger(), db)
	all, err := alarms.GetAllAlarms()
	for _, alarm := range all {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			alarms.MustDeleteAlarm(alarm)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("end the alarms NOSPACE: %w", err)
	}
	return nil
}

// logger tells why etcd's packages end this program.
func logger() *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "message", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder}), os.Stderr, zapcore.PanicLevel))
}

// Names in the database, as those in package look.
var (
	keyBucket  = []byte("key")
	metaBucket = []byte("meta")
)

// revisions are that of the last record of a snapshot, and the newest that it knows of: a compaction may have removed the
// record of that one.
func revisions(path string) (last, newest int64, err error) {
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, 0, err
	}
	defer db.Close() //nolint:errcheck // It was only read.
	err = db.View(func(tx *bolt.Tx) error {
		newest = 1 // An etcd that was never written to has revision 1.
		if keys := tx.Bucket(keyBucket); keys != nil {
			if key, _ := keys.Cursor().Last(); len(key) >= 8 {
				last = revision(key)
				newest = max(newest, last)
			}
		}
		if meta := tx.Bucket(metaBucket); meta != nil {
			for _, name := range []string{"finishedCompactRev", "scheduledCompactRev"} {
				if value := meta.Get([]byte(name)); len(value) >= 8 {
					newest = max(newest, revision(value))
				}
			}
		}
		if last < 0 || newest < 0 {
			return errors.New("a revision is negative")
		}
		return nil
	})
	return last, newest, err
}

func revision(key []byte) int64 { return int64(binary.BigEndian.Uint64(key)) } //nolint:gosec // The caller looks at the sign.

// maxSaid bounds what is kept of what a program says.
const maxSaid = 64 << 10

// carryOut has a child process restore. What ends the child is damage, unless it is the disk, or others ended it.
func (p Program) carryOut(ctx context.Context, o order, object string) (done, error) {
	input, err := json.Marshal(o)
	if err != nil {
		return done{}, err
	}
	child := p(ctx)
	said := &head{left: maxSaid}
	child.Stdin, child.Stderr = bytes.NewReader(input), said
	answer, err := child.Output()
	var d done
	if err == nil {
		err = json.Unmarshal(answer, &d)
	}
	damaged := func(why string) error {
		return archive.Refuse(archive.HashDiffers, "%s cannot be restored, for its database is damaged (%s): take another snapshot, and look at the member that it was taken of", object, why)
	}
	var exit *exec.ExitError
	crashed := errors.As(err, &exit) && !exit.Sys().(syscall.WaitStatus).Signaled() && !outOfRoom(said.String())
	switch {
	case err == nil && d.Failed == "":
		return d, nil
	case ctx.Err() != nil:
		return done{}, fmt.Errorf("restore %s: the time did not suffice: %w", object, ctx.Err())
	case err == nil && d.Damage:
		return done{}, damaged(limited(d.Failed))
	case err == nil:
		return done{}, fmt.Errorf("restore %s: %s", object, d.Failed)
	case crashed:
		return done{}, damaged(cause(said.String()))
	}
	return done{}, fmt.Errorf("restore %s: %w: %s", object, err, cause(said.String()))
}

// outOfRoom reports whether a program ended for want of room or memory.
func outOfRoom(said string) bool {
	for _, want := range []string{"no space left on device", "disk quota exceeded", "out of memory", "cannot allocate memory", "read-only file system", "permission denied", "input/output error"} {
		if strings.Contains(strings.ToLower(said), want) {
			return true
		}
	}
	return false
}

// cause is the line of what a program said that tells why it ended.
func cause(said string) string {
	first := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if first == "" {
			first = line
		}
		for _, prefix := range []string{"panic: ", "fatal error: ", "unexpected fault "} {
			if strings.HasPrefix(line, prefix) {
				return limited(line)
			}
		}
	}
	return limited(first)
}

func limited(line string) string { return errortext.Short(line, 500) }

// head keeps the beginning of what is written.
type head struct {
	bytes.Buffer
	left int
}

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	kept := p[:min(len(p), h.left)]
	h.left -= len(kept)
	_, _ = h.Buffer.Write(kept)
	return len(p), nil
}
