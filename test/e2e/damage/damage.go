// Package damage does to the data directory of an etcd member that does not run what disks, people and programs do to it. Each
// kind of damage is the same each time: what it hits is looked for in the files, and is in use.
package damage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// keys is the bucket of the database with every revision of every key.
var keys = []byte("key")

// lockTimeout is how long another program, such as an etcd that is about to end, may keep the database.
const lockTimeout = 10 * time.Second

// Wipe removes all that is in a data directory. The directory itself stays, or need not be there.
func Wipe(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(directory, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// least is how long a record of the log is that is worth to be damaged: shorter ones have no key.
const least = 64

// Log flips bytes of an entry in the middle of the newest file of the log. etcd takes damage at its very end for a write that a
// loss of power cut off.
func Log(directory string) error {
	files, err := filepath.Glob(filepath.Join(directory, "member", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there is no log in %s: %w", directory, errors.Join(err, os.ErrNotExist))
	}
	newest := files[len(files)-1]
	data, err := os.ReadFile(newest)
	if err != nil {
		return err
	}
	ends := recordsOf(data)
	if len(ends) < 3 {
		return fmt.Errorf("%s has %d entries: it must have some more before its middle is damaged", newest, len(ends))
	}
	// The end of a record is the end of its entry.
	return flip(newest, ends[len(ends)/2]-4, 4)
}

// recordsOf are the ends of the long records of a file of the log. Before each is its length, in the lower 56 bits, and how many
// bytes fill it up, in the upper ones: etcd's server/storage/wal/encoder.go.
func recordsOf(data []byte) (ends []int64) {
	for at := int64(0); at+8 <= int64(len(data)); {
		field := binary.LittleEndian.Uint64(data[at:])
		size, fill := int64(field&^(0xff<<56)), int64(field>>56&7) //nolint:gosec // It has 56 bits.
		if size == 0 || at+8+size > int64(len(data)) {
			break
		}
		if size >= least {
			ends = append(ends, at+8+size)
		}
		at += 8 + size + fill
	}
	return ends
}

// Database flips the head of the page of the database that all keys are found by.
func Database(directory string) error {
	var offset int64
	err := change(directory, func(tx *bolt.Tx) error {
		bucket := tx.Bucket(keys)
		if bucket == nil || bucket.Root() == 0 {
			return errors.New("it has no page of keys")
		}
		offset = int64(bucket.Root()) * int64(tx.DB().Info().PageSize) //nolint:gosec // It is in a file.
		return nil
	})
	if err != nil {
		return err
	}
	return flip(database(directory), offset, 16)
}

// Value changes the value of a key in its newest revision: a text in it becomes another one of the same length. To etcd it is as
// whole as before.
func Value(directory, key, text, another string) error {
	if text == another || len(text) != len(another) {
		return fmt.Errorf("%q and %q are not two texts of one length", text, another)
	}
	return change(directory, func(tx *bolt.Tx) error {
		bucket := tx.Bucket(keys)
		if bucket == nil {
			return errors.New("it has no keys")
		}
		cursor := bucket.Cursor()
		for revision, data := cursor.Last(); revision != nil; revision, data = cursor.Prev() {
			var pair mvccpb.KeyValue
			if err := pair.Unmarshal(data); err != nil {
				return err
			}
			if string(pair.Key) != key {
				continue
			}
			changed := bytes.Replace(pair.Value, []byte(text), []byte(another), 1)
			if bytes.Equal(changed, pair.Value) {
				return fmt.Errorf("the value of %s does not have %q", key, text)
			}
			pair.Value = changed
			raw, err := pair.Marshal()
			if err != nil {
				return err
			}
			return bucket.Put(bytes.Clone(revision), raw)
		}
		return fmt.Errorf("it does not have %s", key)
	})
}

func database(directory string) string { return filepath.Join(directory, "member", "snap", "db") }

// change opens the database as etcd does, and lets it be changed. What is written stays when it succeeds.
func change(directory string, do func(tx *bolt.Tx) error) error {
	path := database(directory)
	if _, err := os.Stat(path); err != nil {
		return err // bbolt would make one
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(do)
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("change %s: %w", path, err)
	}
	return nil
}

// flip turns over all bits of bytes of a file.
func flip(path string, offset int64, count int) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	data := make([]byte, count)
	_, err = file.ReadAt(data, offset)
	for i := range data {
		data[i] ^= 0xff
	}
	if err == nil {
		_, err = file.WriteAt(data, offset)
	}
	return errors.Join(err, file.Sync(), file.Close())
}
