package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/listing"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// caKey is the key of the Secret that vouches for an S3 server.
const caKey = "ca.crt"

// openBucket opens the bucket as the Secrets in the namespace say. What end removes are their files: a store reads them while it
// is used.
func (r *restorer) openBucket(ctx context.Context) (opened store.Store, end func(), err error) {
	folder, err := os.MkdirTemp("", "kok-etcd-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for credentials: %w", err)
	}
	end = func() { _ = os.RemoveAll(folder) }
	if opened, err = r.openBucketIn(ctx, folder); err != nil {
		end()
		return nil, nil, err
	}
	return opened, end, nil
}

func (r *restorer) openBucketIn(ctx context.Context, folder string) (store.Store, error) {
	spec := r.flags.s3
	config := store.S3Config{Endpoint: spec.Endpoint, Bucket: spec.Bucket, Prefix: spec.Prefix, Region: spec.Region, Credentials: folder}
	credentials := []string{backup.AccessKeyIDFile, backup.SecretAccessKeyFile}
	if err := r.secretFiles(ctx, flagCredentials, spec.CredentialsRef.Name, folder, credentials, backup.SessionTokenFile); err != nil {
		return nil, err
	}
	if spec.CARef.Name != "" {
		if err := r.secretFiles(ctx, flagCA, spec.CARef.Name, folder, []string{caKey}); err != nil {
			return nil, err
		}
		config.CA = filepath.Join(folder, caKey)
	}
	s3, err := store.OpenS3(config)
	if err != nil {
		return nil, flagged(err)
	}
	return bucket{s3}, nil
}

// secretFiles writes keys of a Secret as files into a folder.
func (r *restorer) secretFiles(ctx context.Context, flag, name, folder string, keys []string, optional ...string) error {
	at := client.ObjectKey{Namespace: r.key.Namespace, Name: name}
	secret := &corev1.Secret{}
	switch err := r.client.Get(ctx, at, secret); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("--%s: there is no Secret %s; create it, for members of etcd need it, too", flag, at)
	case err != nil:
		return fmt.Errorf("read Secret %s: %w", at, err)
	}
	for _, key := range keys {
		if len(secret.Data[key]) == 0 {
			return fmt.Errorf("--%s: Secret %s has no key %s; add it", flag, at, key)
		}
	}
	for _, key := range append(keys, optional...) {
		if len(secret.Data[key]) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, key), secret.Data[key], 0o600); err != nil {
			return fmt.Errorf("write the credentials of the store: %w", err)
		}
	}
	return nil
}

// choose finds the snapshot that the flags name, if it may be restored, and the keys that it was taken with.
func (r *restorer) choose(ctx context.Context, objects store.Store, all []*opened) (listing.Entry, *opened, error) {
	if r.flags.slot == "" {
		return r.latest(ctx, objects, all)
	}
	slot, err := archive.ParseSlot(r.flags.slot)
	if err != nil {
		return listing.Entry{}, nil, err
	}
	for i, keys := range all {
		entry, err := r.find(ctx, objects, keys.manifests, slot)
		if archive.ReasonOf(err) != archive.Foreign || i == len(all)-1 {
			return entry, keys, err
		}
	}
	return listing.Entry{}, nil, r.noSnapshot()
}

// find finds the snapshot of a slot, if the keys allow to restore it.
func (r *restorer) find(ctx context.Context, objects store.Store, key archive.Key, slot time.Time) (listing.Entry, error) {
	entry, err := listing.Find(ctx, objects, key, slot)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return listing.Entry{}, fmt.Errorf("--%s: the store has no snapshot %s; --dry-run without --%s shows those that it has", flagSlot, r.flags.slot, flagSlot)
	case err != nil:
		return listing.Entry{}, err
	case entry.Err != nil:
		return listing.Entry{}, fmt.Errorf("--%s %s: %w", flagSlot, r.flags.slot, entry.Err)
	case !entry.Verified():
		return listing.Entry{}, fmt.Errorf("--%s: the snapshot %s is not verified, so nobody knows whether an etcd starts from it; choose another one, which --%s does", flagSlot, r.flags.slot, flagLatest)
	}
	return entry, r.whole(ctx, objects, entry)
}

// whole refuses a snapshot whose object is not there, or is cut off.
func (r *restorer) whole(ctx context.Context, objects store.Store, entry listing.Entry) error {
	all, err := objects.List(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.Name == entry.Manifest.Object && o.Bytes == entry.Manifest.Encrypted.Bytes {
			return nil
		}
	}
	return fmt.Errorf("--%s %s: %w", flagSlot, archive.SlotName(entry.Slot), archive.Refuse(archive.Truncated,
		"%s is not there with the %d bytes that its manifest says: choose another snapshot", entry.Manifest.Object, entry.Manifest.Encrypted.Bytes))
}

// latest is the newest verified snapshot that is not in the future.
func (r *restorer) latest(ctx context.Context, objects store.Store, all []*opened) (listing.Entry, *opened, error) {
	found, of, err := entries(ctx, objects, all)
	if err != nil {
		return listing.Entry{}, nil, err
	}
	for i, e := range found {
		switch {
		case e.Err == nil && archive.IsInFuture(e.Slot, time.Now()):
			r.cluster.Say("The snapshot %s is left out: %s", archive.SlotName(e.Slot), inFutureMessage)
		case e.Verified():
			return e, of[i], nil
		case e.Err != nil:
			r.cluster.Say("The snapshot %s is left out: %v", archive.SlotName(e.Slot), e.Err)
		default:
			r.cluster.Say("The snapshot %s is left out: it is not verified", archive.SlotName(e.Slot))
		}
	}
	if len(found) == 0 {
		return listing.Entry{}, nil, r.noSnapshot()
	}
	return listing.Entry{}, nil, fmt.Errorf("--%s: none of the %d snapshots is verified, genuine and not in the future; look into another store, or name one by --%s", flagLatest, len(found), flagSlot)
}

func (r *restorer) noSnapshot() error {
	return fmt.Errorf("--%s: there is no snapshot at %s in bucket %s; give the prefix of the former cluster, which is <namespace>/<name> of it unless spec.etcd.backup.store.s3.prefix said otherwise", flagPrefix, r.flags.s3.Prefix, r.flags.s3.Bucket)
}

// rowOfEntry is a snapshot of a store for people.
func rowOfEntry(e listing.Entry) row {
	slot := archive.SlotName(e.Slot)
	r := row{Name: slot, Slot: slot, Verified: no}
	if e.Err != nil {
		r.Reason, r.Message = string(archive.ReasonOf(e.Err)), e.Err.Error()
		return r
	}
	r.Taken, r.Revision, r.StoredBytes = metav1.NewTime(e.Manifest.Taken.Truncate(time.Second)), e.Manifest.Revision, e.Manifest.Encrypted.Bytes
	if e.Verified() {
		r.Verified = yes
	}
	return r
}
