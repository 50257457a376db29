package etcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// maxIdentities bounds a file with secret keys, in bytes.
const maxIdentities = 64 << 10

// readIdentities reads a person's file of secret keys.
func readIdentities(file string) ([]age.Identity, error) {
	content, err := readFile(file, maxIdentities)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagIdentity, err)
	}
	identities, err := age.ParseIdentities(strings.NewReader(string(content)))
	switch {
	case err == nil:
		return identities, nil
	case strings.HasPrefix(string(content), "age-encryption.org/"), strings.HasPrefix(string(content), "-----BEGIN AGE"):
		return nil, fmt.Errorf("--%s: %s is encrypted; decrypt it first: age --decrypt %s > key.txt", flagIdentity, file, file)
	default:
		// What age says may have parts of a key.
		return nil, fmt.Errorf("--%s: %s has no secret key of age (AGE-SECRET-KEY-1...); it is the file that age-keygen wrote, and not the public key", flagIdentity, file)
	}
}

func readFile(file string, most int64) ([]byte, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close() //nolint:errcheck // Only read.
	content, err := io.ReadAll(io.LimitReader(opened, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s has more than %d bytes", file, most)
	}
	return content, err
}

// opened are the keys of the former cluster.
type opened struct {
	material *pki.KeyMaterial
	// manifests is the key that signs manifests.
	manifests archive.Key
}

// fingerprint is that of the certificate of the cluster CA, as openssl writes it.
func (o *opened) fingerprint() string {
	var parts []string
	for _, b := range sha256.Sum256(o.material.ClusterCA.Certificate.Raw) {
		parts = append(parts, fmt.Sprintf("%02X", b))
	}
	return strings.Join(parts, ":")
}

// openKeys decrypts the keys of the former cluster: those of --keys-file, or the newest of the bucket.
func (r *restorer) openKeys(ctx context.Context, objects store.Store, identities []age.Identity) (*opened, error) {
	from, sealed, err := r.sealedKeys(ctx, objects)
	if err != nil {
		return nil, err
	}
	keys, err := pki.OpenKeys(sealed, identities)
	var nobody *age.NoIdentityMatchError
	if errors.As(err, &nobody) {
		return nil, fmt.Errorf("--%s: no secret key in %s opens %s; give that of one of spec.etcd.backup.recipients of the former control plane", flagIdentity, r.flags.identityFile, from)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it is cut off or another file: give another one by --%s", from, err, flagKeys)
	}
	o := &opened{}
	if o.material, err = pki.DecodeKeys(keys); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	signing, _, _, err := o.material.SnapshotKeys()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	o.manifests, err = archive.NewKey(signing)
	return o, err
}

// sealedKeys reads the keys of the former cluster, and says from where.
func (r *restorer) sealedKeys(ctx context.Context, objects store.Store) (from string, sealed []byte, err error) {
	if r.flags.keysFile != "" {
		if sealed, err = readFile(r.flags.keysFile, pki.MaxBundle); err != nil {
			return "", nil, fmt.Errorf("--%s: %w", flagKeys, err)
		}
		return r.flags.keysFile, sealed, nil
	}
	all, err := objects.List(ctx)
	if err != nil {
		return "", nil, err
	}
	name := newestKeys(all)
	if name == "" {
		if len(all) == 0 {
			return "", nil, r.noSnapshot()
		}
		return "", nil, fmt.Errorf("--%s: there is no object keys-*.age at %s in bucket %s, which has the keys of the former cluster; give a copy by --%s", flagPrefix, r.flags.s3.Prefix, r.flags.s3.Bucket, flagKeys)
	}
	object, err := objects.Get(ctx, name)
	if err != nil {
		return "", nil, err
	}
	defer object.Close() //nolint:errcheck // It was only read.
	if sealed, err = io.ReadAll(io.LimitReader(object, pki.MaxBundle)); err != nil {
		return "", nil, fmt.Errorf("read %s: %w", name, err)
	}
	return name, sealed, nil
}

// newestKeys is the newest object with keys; empty for none.
func newestKeys(objects []store.Object) string {
	keys := slices.DeleteFunc(slices.Clone(objects), func(o store.Object) bool {
		_, ok := archive.ParseKeysName(o.Name)
		return !ok
	})
	if len(keys) == 0 {
		return ""
	}
	return slices.MaxFunc(keys, func(a, b store.Object) int { return a.Modified.Compare(b.Modified) }).Name
}
