package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"

	"filippo.io/age"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// fetch downloads, decrypts and unpacks a snapshot into a new file, which is not there unless all of it is as its manifest says.
func fetch(ctx context.Context, s store.Store, m archive.Manifest, identities []age.Identity, path string) (err error) {
	object, err := s.Get(ctx, m.Object)
	if errors.Is(err, store.ErrNotFound) {
		return archive.Refuse(archive.Truncated, "%s is not there, although its manifest is: take another snapshot, or one of another store", m.Object)
	}
	if err != nil {
		return err
	}
	defer object.Close() //nolint:errcheck // It was only read.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", m.Object, err)
	}
	err = errors.Join(archive.Extract(file, object, m, identities), file.Close())
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}
