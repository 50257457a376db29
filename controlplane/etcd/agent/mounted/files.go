package mounted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// MaxFile bounds files in bytes.
const MaxFile = 64 << 10

// Read reads a file.
func Read(path string) ([]byte, error) { return read(path, MaxFile) }

func read(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // It was only read.
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}

// Key reads the key that signs manifests.
func Key(path string) (archive.Key, error) {
	secret, err := Read(path)
	if err != nil {
		return archive.Key{}, err
	}
	return archive.NewKey(secret)
}

// Identities reads secret keys of age.
func Identities(path string) ([]age.Identity, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	found, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil {
		// age's own message may have a part of the file in it.
		return nil, fmt.Errorf("%s has a line that is no secret key of age (AGE-SECRET-KEY-1...)", path)
	}
	return found, nil
}

// Store is a store and the end of its use.
type Store struct {
	store.Store
	Close func()
}

// Place is where snapshots are: a folder, or a bucket.
type Place struct {
	Directory string
	// Field is that of the folder's volume, for messages.
	Field string
	S3    store.S3Config
}

// Open opens the store.
func (p Place) Open() (Store, error) {
	if (p.Directory == "") == (p.S3.Endpoint == "") {
		return Store{}, errors.New("name one store: a folder, or an S3 server with its bucket")
	}
	if p.Directory != "" {
		d, err := store.OpenDirectory(p.Directory, p.Field)
		if err != nil {
			return Store{}, err
		}
		return Store{d, func() { _ = d.Close() }}, nil // What was written is on the disk.
	}
	s, err := store.OpenS3(p.S3)
	if err != nil {
		return Store{}, err
	}
	return Store{s, func() {}}, nil
}
