package look

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
)

// What etcd's packages schema and mvcc, which bring half of etcd, have in the database.
var (
	metaBucket = []byte("meta")
	keyBucket  = []byte("key")
)

const (
	consistentIndex  = "consistent_index"
	term             = "term"
	storageVersion   = "storageVersion"
	finishedCompact  = "finishedCompactRev"
	scheduledCompact = "scheduledCompactRev"
)

// lockTimeout is how long another program may keep the database.
const lockTimeout = time.Second

// database is an open database of a member, and what it says.
type database struct {
	path           string
	file           *bolt.DB
	bytes          int64
	applied, term  uint64
	revision       int64
	storageVersion string
}

// openDatabase opens a database and reads what it says of itself. Nobody can open it for writing while it is open.
func openDatabase(path string) (d *database, err error) {
	defer recovered(facts.DatabaseDamaged, path, &err)
	file, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, problemf(facts.InUse, "another program, most probably etcd, has %s open; end it first", path)
	}
	if err != nil {
		return nil, damage(facts.DatabaseDamaged, path, err)
	}
	d = &database{path: path, file: file}
	if err := d.read(); err != nil {
		d.close()
		return nil, damage(facts.DatabaseDamaged, path, err)
	}
	return d, nil
}

// close lets others open the database. A nil one is closed.
func (d *database) close() {
	if d != nil {
		_ = d.file.Close()
	}
}

func (d *database) read() error {
	info, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	d.bytes = info.Size()
	return d.file.View(func(tx *bolt.Tx) error {
		if tx.Size() > d.bytes {
			return fmt.Errorf("the file has %d bytes, and its pages are %d", d.bytes, tx.Size())
		}
		if err := d.readMeta(tx.Bucket(metaBucket)); err != nil {
			return err
		}
		return d.readRevision(tx.Bucket(keyBucket))
	})
}

func (d *database) readMeta(meta *bolt.Bucket) error {
	if meta == nil {
		return nil
	}
	for key, number := range map[string]*uint64{consistentIndex: &d.applied, term: &d.term} {
		value := meta.Get([]byte(key))
		if value == nil {
			continue
		}
		if len(value) != 8 {
			return fmt.Errorf("%s has %d bytes", key, len(value))
		}
		*number = binary.BigEndian.Uint64(value)
	}
	// As schema.UnsafeDetectSchemaVersion does.
	if version := meta.Get([]byte(storageVersion)); version != nil {
		d.storageVersion = minorOf(string(version))
	} else if d.term != 0 {
		d.storageVersion = "3.5"
	}
	// A compaction may have removed the newest revision itself. Its revision is the one that etcd goes on from.
	for _, key := range []string{finishedCompact, scheduledCompact} {
		if value := meta.Get([]byte(key)); value != nil {
			revision, err := revisionOf(value)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			d.revision = max(d.revision, revision)
		}
	}
	return nil
}

func (d *database) readRevision(keys *bolt.Bucket) error {
	// An etcd that was never written to has revision 1.
	d.revision = max(d.revision, 1)
	if keys == nil {
		return nil
	}
	last, _ := keys.Cursor().Last()
	if last == nil {
		return nil
	}
	revision, err := revisionOf(last)
	if err != nil {
		return err
	}
	d.revision = max(d.revision, revision)
	return nil
}

// minorOf is the minor of a version: 3.6 of 3.6.0.
func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// revisionOf is the main revision in a key of the database. Its form is that of mvcc.BytesToBucketKey.
func revisionOf(key []byte) (int64, error) {
	if (len(key) != 17 && len(key) != 18) || key[8] != '_' || key[0] > 127 || key[9] > 127 {
		return 0, fmt.Errorf("%x is no revision", key)
	}
	return int64(binary.BigEndian.Uint64(key)), nil //nolint:gosec // The highest bit is not set.
}

// blank reports whether nothing was ever applied: etcd makes the database before the log.
func (d *database) blank() bool { return d.applied == 0 && d.revision <= 1 }

// check looks at every page and every record. bbolt looks at pages in goroutines of its own: one that panics ends the
// program, and one that found damage waits for ever.
func (d *database) check() error {
	if err := readThrough(d.path); err != nil {
		return damage(facts.DatabaseDamaged, d.path, err)
	}
	err := d.file.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return d.checkRecords(tx.Bucket(keyBucket))
	})
	if err != nil {
		return damage(facts.DatabaseDamaged, d.path, err)
	}
	return nil
}

// readThrough reads a file from its beginning to its end. bbolt reads pages in no order, each by itself, which takes five
// times as long; and an error of the disk is an error here, where it ends a program that has the file in its memory.
func readThrough(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	buffer := make([]byte, 1<<20)
	for err == nil {
		_, err = file.Read(buffer)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// checkRecords reads all records as etcd does when it starts: it ends at the first that it cannot read.
func (d *database) checkRecords(keys *bolt.Bucket) (err error) {
	defer recovered(facts.DatabaseDamaged, d.path, &err)
	if keys == nil {
		return nil
	}
	var record mvccpb.KeyValue
	cursor := keys.Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		if _, err := revisionOf(key); err != nil {
			return err
		}
		record.Reset()
		if err := record.Unmarshal(value); err != nil {
			return fmt.Errorf("the record of revision %x: %w", key, err)
		}
	}
	return nil
}
