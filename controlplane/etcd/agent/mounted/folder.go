package mounted

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// maxKeys bounds KeysFile, and maxConfig ConfigFile.
const maxKeys, maxConfig = 1 << 20, 1 << 20

// Folder is that of the manager's Secret, at one moment.
type Folder struct {
	// path is where kubelet changes files, and now has those of one version of the Secret.
	path, now string
}

// versions is the link that kubelet sets to the folder with the present version of a Secret's files.
const versions = "..data"

// OpenFolder finds the files that are there now: kubelet changes all of them at once.
func OpenFolder(path string) (Folder, error) {
	now, err := filepath.EvalSymlinks(filepath.Join(path, versions))
	if errors.Is(err, fs.ErrNotExist) {
		// A folder that kubelet did not make.
		now, err = path, nil
	}
	return Folder{path, now}, err
}

// errNoConfig is said while the manager has yet to write the file, or kubelet to bring it.
var errNoConfig = errors.New(backup.ConfigFile + " is not there yet: the manager writes it when it knows all that is in it, and kubelet brings it within two minutes")

// Config reads how a tenant is backed up.
func (f Folder) Config() (backup.Config, error) {
	file, err := read(filepath.Join(f.now, backup.ConfigFile), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return backup.Config{}, errNoConfig
	}
	if err != nil {
		return backup.Config{}, err
	}
	return backup.DecodeConfig(file)
}

// Seed reads what a member begins with; false where there is none.
func (f Folder) Seed() (backup.Seed, bool, error) {
	file, err := Read(filepath.Join(f.now, backup.SeedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return backup.Seed{}, false, nil
	}
	if err != nil {
		return backup.Seed{}, false, err
	}
	s, err := backup.DecodeSeed(file)
	return s, err == nil, err
}

// Former reads the IDs of clusters whose data must not be started again.
func (f Folder) Former() ([]string, error) {
	file, err := Read(filepath.Join(f.now, backup.FormerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	former, err := backup.DecodeFormer(file)
	return former.ClusterIDs, err
}

// Keys reads the tenant's key material, which is encrypted.
func (f Folder) Keys() ([]byte, error) {
	return read(filepath.Join(f.now, backup.KeysFile), maxKeys)
}

// Reader gives what it takes to read snapshots of a store.
func (f Folder) Reader(s store.Store, program snapshot.Program) (snapshot.Reader, error) {
	key, err := Key(filepath.Join(f.now, backup.KeyFile))
	if err != nil {
		return snapshot.Reader{}, fmt.Errorf("%s: %w", backup.KeyFile, err)
	}
	opened, err := Identities(filepath.Join(f.now, backup.IdentityFile))
	if err != nil {
		return snapshot.Reader{}, fmt.Errorf("%s: %w", backup.IdentityFile, err)
	}
	return snapshot.Reader{Store: s, Key: key, Identities: opened, Program: program}, nil
}

// KeyID differs for other keys of manifests and other identities. It is to be compared, and not to be told.
func (f Folder) KeyID() string {
	var all [][]byte
	for _, name := range []string{backup.KeyFile, backup.IdentityFile} {
		file, err := Read(filepath.Join(f.now, name))
		all = append(all, file, []byte(fmt.Sprint(err)))
	}
	return archive.HashOf(bytes.Join(all, []byte{0}))
}

// Store opens a store: a bucket, or the folder of a volume. Credentials are read where kubelet changes them.
func (f Folder) Store(s backup.Store, volume string) (Store, error) {
	switch {
	case s.PerMember:
		return Place{Directory: volume, Field: store.FieldPerMember}.Open()
	case s.S3 == nil:
		return Place{Directory: volume, Field: store.FieldClaimName}.Open()
	}
	c := store.S3Config{Endpoint: s.S3.Endpoint, Bucket: s.S3.Bucket, Prefix: s.S3.Prefix, Region: s.S3.Region, Credentials: f.path}
	if ca := filepath.Join(f.path, backup.S3CAFile); f.has(backup.S3CAFile) {
		c.CA = ca
	}
	return Place{S3: c}.Open()
}

func (f Folder) has(name string) bool {
	_, err := os.Stat(filepath.Join(f.now, name))
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
