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
	"time"

	"filippo.io/age"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
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

// mostKeys is how many objects with keys are looked into.
const mostKeys = 20

// openKeys decrypts the keys of the former cluster: those of --keys-file, or the newest mostKeys of the bucket, the newest first. A cluster
// whose encryption key was rotated has other keys for older snapshots. Of several objects with keys for the same snapshots the newest
// counts, because it also has the newest of the other keys.
func (r *restorer) openKeys(ctx context.Context, objects store.Store, identities []age.Identity) ([]*opened, error) {
	if r.flags.keysFile != "" {
		sealed, err := readFile(r.flags.keysFile, pki.MaxBundle)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flagKeys, err)
		}
		o, err := r.open(r.flags.keysFile, sealed, identities)
		return []*opened{o}, err
	}
	all, err := objects.List(ctx)
	if err != nil {
		return nil, err
	}
	names := keysOf(all)
	if len(names) == 0 {
		if len(all) == 0 {
			return nil, r.noSnapshot()
		}
		return nil, fmt.Errorf("--%s: there is no object keys-*.age at %s in bucket %s, which has the keys of the former cluster; give a copy by --%s", flagPrefix, r.flags.s3.Prefix, r.flags.s3.Bucket, flagKeys)
	}
	var found []*opened
	for i, name := range names[:min(len(names), mostKeys)] {
		sealed, err := readSealed(ctx, objects, name)
		var o *opened
		if err == nil {
			o, err = r.open(name, sealed, identities)
		}
		switch {
		case err != nil && i == 0:
			return nil, err
		case err != nil:
			r.cluster.Say("The keys %s are left out: %v", name, err)
		case !slices.ContainsFunc(found, func(newer *opened) bool { return newer.manifests.ID() == o.manifests.ID() }):
			found = append(found, o)
		}
	}
	return found, nil
}

// open decrypts keys. from is where they are, for messages.
func (r *restorer) open(from string, sealed []byte, identities []age.Identity) (*opened, error) {
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

func readSealed(ctx context.Context, objects store.Store, name string) ([]byte, error) {
	object, err := objects.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // It was only read.
	sealed, err := io.ReadAll(io.LimitReader(object, pki.MaxBundle))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return sealed, nil
}

// keysOf are the objects with keys, the newest first.
func keysOf(objects []store.Object) []string {
	keys := slices.DeleteFunc(slices.Clone(objects), func(o store.Object) bool {
		_, ok := archive.ParseKeysName(o.Name)
		return !ok
	})
	slices.SortStableFunc(keys, func(a, b store.Object) int { return b.Modified.Compare(a.Modified) })
	names := make([]string, 0, len(keys))
	for _, object := range keys {
		names = append(names, object.Name)
	}
	return names
}

// entries are the snapshots of the store, the newest first, each with the keys that it was taken with; with the newest keys if these are not
// there.
func entries(ctx context.Context, objects store.Store, all []*opened) ([]listing.Entry, []*opened, error) {
	var found []listing.Entry
	var of []*opened
	for _, keys := range all {
		listed, err := listing.List(ctx, objects, keys.manifests)
		if err != nil {
			return nil, nil, err
		}
		for _, entry := range listed {
			i := slices.IndexFunc(found, func(e listing.Entry) bool { return e.Slot.Equal(entry.Slot) })
			if i < 0 {
				found, of = append(found, entry), append(of, keys)
			} else if archive.ReasonOf(found[i].Err) == archive.Foreign && archive.ReasonOf(entry.Err) != archive.Foreign {
				found[i], of[i] = entry, keys
			}
		}
	}
	return found, of, nil
}

// rotatedSince reports whether a snapshot of the store that is later than a slot was taken with another encryption key than that of these keys.
func rotatedSince(ctx context.Context, objects store.Store, all []*opened, slot time.Time, keys *opened) (bool, error) {
	found, of, err := entries(ctx, objects, all)
	for i, entry := range found {
		if entry.Slot.After(slot) && of[i] != keys && archive.ReasonOf(entry.Err) != archive.Foreign {
			return true, err
		}
	}
	return false, err
}
