package pki

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// Store keeps the key material of tenants in Secrets.
type Store struct {
	// Management holds Cluster API's Secrets.
	Management secrets.Access
	// Host holds what pods mount. It may be the same cluster.
	Host secrets.Access
}

// Request says whose key material is wanted.
type Request struct {
	// Cluster is the tenant's Cluster; both copies are in its namespace.
	Cluster client.ObjectKey
	// Owner becomes the owner of Secrets made in the management cluster.
	Owner *metav1.OwnerReference
	// HostOwner becomes the owner of the copy in the host cluster: only when both clusters are one.
	HostOwner *metav1.OwnerReference
	// Encryption is rendered beside the key.
	Encryption controlplanev1.EncryptionAtRestSpec
	// Live reads from the API server alone: a cache may not know yet how far a rotation has come.
	Live bool
	// UsedBy says for people what uses key material already; empty when nothing does. Only then is a key generated that both
	// places lack. It must read from the API server, not from a cache. It is called only when both places lack something.
	UsedBy func(context.Context) (string, error)
}

// Ensure makes both copies of the tenant's key material complete, and returns it.
//
// A key that one place lacks is restored from the other. A key that both lack is generated when nothing uses it yet;
// otherwise the error is a *LostError. The error is an *InvalidError when a copy cannot be used, or when copies differ.
// The attempt that ends with either of these errors has written nothing; one before it may have, when another writer was
// faster. When both copies are complete, no key is written. Labels, an owner and the file of Encryption are put right.
//
// The Secret in the management cluster is created first: the API server accepts only one of several writers. The host
// cluster's copy is written after that. So after a kill at any point the next call goes on with the same keys. Of a rotation it is
// the other way round: see [Store.Rotate].
func (s *Store) Ensure(ctx context.Context, request Request) (*KeyMaterial, error) {
	log := &KeyMaterial{}
	for attempt := range secrets.Attempts {
		read, err := s.read(ctx, request.Cluster, attempt > 0 || request.Live)
		if err != nil {
			return nil, err
		}
		values, missing, err := read.merge()
		if err != nil || len(missing) > 0 {
			if read.fromCache {
				continue
			}
			if err != nil {
				return nil, err
			}
			if err := generate(ctx, request, read, values, missing); err != nil {
				return nil, err
			}
		}
		material, err := newKeyMaterial(values)
		if err != nil {
			return nil, fmt.Errorf("key material of cluster %s: %w", request.Cluster, err)
		}
		material.rotations = read.rotations
		writes := read.managementWrites(request, values)
		host, err := read.hostWrite(request, values)
		if err != nil {
			return nil, err
		}
		if read.fromCache && (len(writes) > 0 || host != nil || read.rotationWrite(request) != nil) {
			continue
		}
		settled, err := s.writeAll(ctx, request, read, writes, host, missing, log)
		if err != nil {
			return nil, err
		}
		if settled {
			material.Copied, material.Generated = log.Copied, log.Generated
			return material, nil
		}
	}
	return nil, fmt.Errorf("write key material of cluster %s: %w", request.Cluster, secrets.ErrRace)
}

func (s *Store) read(ctx context.Context, cluster client.ObjectKey, live bool) (*copies, error) {
	read := &copies{cluster: cluster, management: map[string]*corev1.Secret{}}
	var lock sync.Mutex
	group, together := errgroup.WithContext(ctx)
	for _, it := range items {
		group.Go(func() (err error) {
			defer panics.Recover(together, "reading a Secret", &err)
			found, fromCache, err := s.Management.Get(together, read.managementLocation(it).ObjectKey, live)
			lock.Lock()
			defer lock.Unlock()
			read.management[it.name] = found
			read.fromCache = read.fromCache || fromCache
			return err
		})
	}
	group.Go(func() (err error) {
		defer panics.Recover(together, "reading a Secret", &err)
		found, fromCache, err := s.Host.Get(together, read.hostLocation().ObjectKey, live)
		lock.Lock()
		defer lock.Unlock()
		read.host = found
		read.fromCache = read.fromCache || fromCache
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("read key material of cluster %s: %w", cluster, err)
	}
	if err := s.readRotations(ctx, read, live); err != nil {
		return nil, fmt.Errorf("read key material of cluster %s: %w", cluster, err)
	}
	return read, nil
}

// generate fills values with what is missing, or fails with *LostError.
func generate(ctx context.Context, request Request, read *copies, values map[string][][]byte, missing []item) error {
	user, err := request.UsedBy(ctx)
	if err != nil {
		return fmt.Errorf("find out what uses the keys of cluster %s: %w", request.Cluster, err)
	}
	if user != "" {
		lost := &LostError{UsedBy: user}
		for _, it := range missing {
			lost.Keys = append(lost.Keys, LostKey{
				What: it.name, Management: read.managementLocation(it), Host: read.hostLocation(), HostDataKeys: it.hostKeys,
			})
		}
		return lost
	}
	for _, it := range missing {
		value, err := it.generate()
		if err != nil {
			return fmt.Errorf("generate the %s of cluster %s: %w", it.name, request.Cluster, err)
		}
		values[it.name] = value
	}
	return nil
}

// managementWrites are the Secrets of the management cluster to create or complete. Secrets that a person made are left
// alone, but for a key that a rotation has replaced, and for what tells others of a rotation.
func (c *copies) managementWrites(request Request, values map[string][][]byte) map[string]*corev1.Secret {
	writes := map[string]*corev1.Secret{}
	for _, it := range items {
		present := c.management[it.name]
		former := c.isFormer(it, part(present, it.managementKeys))
		// A person may have removed the label. The controller's owner reference also shows that we made the Secret.
		mine := present == nil || secrets.Ours(present) || secrets.ControlledBy(present, request.Owner)
		trusted := c.trustedByOthers(it, values[it.name])
		if !mine && !former && bytes.Equal(trusted, dataOf(present, it.trustedKey)) {
			continue
		}
		at := c.managementLocation(it)
		wanted := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
			Type:       clusterv1.ClusterSecretType,
		}
		if present != nil {
			wanted = present.DeepCopy()
		}
		if mine {
			secrets.Own(wanted, names.ComponentLabels(c.cluster, names.PKI), request.Owner)
		}
		if former {
			clearKeys(wanted, it.managementKeys)
		}
		if mine || former {
			fill(wanted, it.managementKeys, values[it.name])
		}
		if it.trustedKey != "" {
			if delete(wanted.Data, it.trustedKey); trusted != nil {
				wanted.Data[it.trustedKey] = trusted
			}
		}
		if present == nil || !apiequality.Semantic.DeepEqual(present, wanted) {
			writes[it.name] = wanted
		}
	}
	return writes
}

// trustedByOthers are the public parts of both keys while a kind rotates that other providers trust; nil otherwise.
func (c *copies) trustedByOthers(it item, former [][]byte) []byte {
	r := c.rotations[it.name]
	if it.trustedKey == "" || r == nil || !r.UnderWay() {
		return nil
	}
	return joined(former[publicPart], r.parts[publicPart])
}

// dataOf is what a Secret has under a data key; nil for a Secret that does not exist.
func dataOf(secret *corev1.Secret, key string) []byte {
	if secret == nil {
		return nil
	}
	return secret.Data[key]
}

// hostWrite is the host cluster's copy when it must be written. Unknown data keys stay: they may be key material of a later
// release.
func (c *copies) hostWrite(request Request, values map[string][][]byte) (*corev1.Secret, error) {
	at := c.hostLocation()
	wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}, Type: corev1.SecretTypeOpaque}
	if c.host != nil {
		wanted = c.host.DeepCopy()
	}
	secrets.Own(wanted, names.ComponentLabels(c.cluster, names.PKI), request.HostOwner)
	for _, it := range items {
		if c.isFormer(it, part(c.host, it.hostKeys)) {
			clearKeys(wanted, it.hostKeys)
		}
		fill(wanted, it.hostKeys, values[it.name])
		c.fillRotation(wanted, it, values[it.name])
	}
	configurations, err := c.encryptionFiles(request.Encryption, values[Encryption][publicPart])
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(wanted.Data, func(key string, _ []byte) bool { return isEncryptionFile(key) && configurations[key] == nil })
	maps.Copy(wanted.Data, configurations)
	if c.host != nil && apiequality.Semantic.DeepEqual(c.host, wanted) {
		return nil, nil
	}
	return wanted, nil
}

// fill sets missing data. Existing data stays: merge has found it to be the same key.
func fill(secret *corev1.Secret, keys []string, parts [][]byte) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for i, key := range keys {
		if len(secret.Data[key]) == 0 {
			secret.Data[key] = parts[i]
		}
	}
}

// writeAll writes the management cluster's Secrets, then the host cluster's. settled is false when another writer was faster,
// and everything must be read again.
func (s *Store) writeAll(ctx context.Context, request Request, read *copies, writes map[string]*corev1.Secret, host *corev1.Secret, missing []item, log *KeyMaterial) (settled bool, err error) {
	generated := map[string]bool{}
	for _, it := range missing {
		generated[it.name] = true
	}
	var lock sync.Mutex
	settled = true
	// One failure does not stop the others: each Secret that is written now need not be written later.
	group := errgroup.Group{}
	for _, it := range items {
		wanted, ok := writes[it.name]
		if !ok {
			continue
		}
		group.Go(func() (err error) {
			defer panics.Recover(ctx, "writing a Secret", &err)
			before := part(read.management[it.name], it.managementKeys)
			lost, err := s.Management.Write(ctx, wanted)
			lock.Lock()
			defer lock.Unlock()
			settled = settled && !lost
			if lost || err != nil {
				return err
			}
			if generated[it.name] {
				log.Generated = append(log.Generated, it.name)
			} else if !complete(before) {
				log.Copied = append(log.Copied, read.managementLocation(it))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || !settled {
		return settled, err
	}
	if lost, err := s.writeRotations(ctx, request, read); err != nil || lost {
		return false, err
	}
	if host == nil {
		return true, nil
	}
	lost, err := s.Host.Write(ctx, host)
	if err != nil || lost {
		return false, err
	}
	if read.copied(generated) {
		log.Copied = append(log.Copied, read.hostLocation())
	}
	return true, nil
}

// copied is true when a key that existed was written into the host cluster's copy. The first copy of
// a new tenant does not count.
func (c *copies) copied(generated map[string]bool) bool {
	if c.host == nil && len(generated) > 0 {
		return false
	}
	for _, it := range items {
		if !generated[it.name] && !complete(part(c.host, it.hostKeys)) {
			return true
		}
	}
	return false
}
