package pki

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// Rotation is the last rotation of a kind of key.
type Rotation struct {
	rotation.Record
	// Former is the fingerprint of the key before, FormerFile what the names of its files end in: empty for the key that the tenant
	// was made with.
	Former     string `json:"former"`
	FormerFile string `json:"formerFile,omitempty"`
	// Key are the parts of the new key, by the data keys of Cluster API's Secret.
	Key map[string][]byte `json:"key"`

	// parts are those of Key, in their order, raw is how the rotation is stored.
	parts [][]byte
	raw   []byte
}

// File is what the names of the new key's files end in.
func (r *Rotation) File() string { return digits(r.parts) }

// digits are the first of a key's fingerprint.
func digits(parts [][]byte) string {
	return strings.TrimPrefix(fingerprint(parts), "sha256:")[:fileDigits]
}

// fileDigits is how many hexadecimal digits of a fingerprint are in the names of files.
const fileDigits = 10

// Rotation is the last rotation of a kind of key; nil for one that was never rotated.
func (m *KeyMaterial) Rotation(kind string) *Rotation { return m.rotations[kind] }

// LastRotated tells when the last rotation of a key was over; zero if none was. dropping is true while another rotation drops its former key.
func (m *KeyMaterial) LastRotated() (over time.Time, dropping bool) {
	for _, r := range m.rotations {
		dropping = dropping || r.Phase == rotation.Dropping
		if ended, err := time.Parse(time.RFC3339, r.Ended); err == nil && ended.After(over) {
			over = ended
		}
	}
	return over, dropping
}

// FormerTokenKeys are the IDs that tokens have of the key which a rotation of the service account key replaces; none once that is
// over.
func (m *KeyMaterial) FormerTokenKeys() ([]string, error) {
	r := m.rotations[ServiceAccount]
	if r == nil || !r.UnderWay() {
		return nil, nil
	}
	return tokenKeys(m.parts[ServiceAccount][publicPart])
}

// tokenKeys are the IDs of public keys in the header of tokens, as kube-apiserver makes them.
func tokenKeys(public []byte) ([]string, error) {
	keys, err := keyutil.ParsePublicKeysPEM(public)
	if err != nil {
		return nil, fmt.Errorf("read the public service account key: %w", err)
	}
	ids := make([]string, 0, len(keys))
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode the public service account key: %w", err)
		}
		hash := sha256.Sum256(der)
		ids = append(ids, base64.RawURLEncoding.EncodeToString(hash[:]))
	}
	return ids, nil
}

// bundled are the parts of an item for those who have no other copy of it: while it rotates, the parts trust both keys.
func (m *KeyMaterial) bundled(it item) [][]byte {
	r, parts := m.rotations[it.name], m.parts[it.name]
	if r == nil {
		return parts
	}
	switch r.Phase {
	case rotation.Trusting:
		return it.both(parts, r.parts, false)
	case rotation.Using, rotation.Prepared:
		return it.both(parts, r.parts, true)
	}
	return r.parts
}

// bothPairs have both public parts, and the private one of the key that is in use. The public part of that one comes first.
func bothPairs(former, next [][]byte, nextIsUsed bool) [][]byte {
	used, trusted := former, next
	if nextIsUsed {
		used, trusted = next, former
	}
	return [][]byte{joined(used[publicPart], trusted[publicPart]), used[privatePart]}
}

// errFaster is why a rotation is a conflict.
var errFaster = errors.New("another writer was faster")

// Rotate stores that the rotation of a kind has come to a phase. A rotation that was asked for by another time begins with a new key.
// Rotate writes to the host cluster's copy alone, and [Store.Ensure] brings all else to it. The error is a conflict if another writer was
// faster.
//
// That copy says what is true of rotations: a Secret of rotations that somebody makes in the management cluster must not bring a key
// that API servers trust.
func (s *Store) Rotate(ctx context.Context, cluster client.ObjectKey, material *KeyMaterial, kind string, next rotation.Record) error {
	it, before := itemOf(kind), material.rotations[kind]
	wanted, stored := &Rotation{Record: next}, []byte(nil)
	if before != nil {
		wanted.Former, wanted.FormerFile, wanted.Key, stored = before.Former, before.FormerFile, before.Key, before.raw
	}
	if before == nil || before.Asked != next.Asked {
		parts, err := it.generate()
		if err != nil {
			return fmt.Errorf("generate the next %s of cluster %s: %w", it.name, cluster, err)
		}
		wanted.Former, wanted.FormerFile, wanted.Key = fingerprint(material.parts[kind]), "", map[string][]byte{}
		if before != nil {
			wanted.FormerFile = before.File()
		}
		for i, key := range it.managementKeys {
			wanted.Key[key] = parts[i]
		}
	}
	raw, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("encode the rotation of the %s of cluster %s: %w", it.name, cluster, err)
	}
	at := client.ObjectKey{Namespace: cluster.Namespace, Name: names.KeyMaterial(cluster.Name)}
	// A cache that is late would look like a faster writer.
	present, _, err := s.Host.Get(ctx, at, true)
	switch {
	case err != nil:
		return fmt.Errorf("rotate the %s of cluster %s: %w", it.name, cluster, err)
	case present == nil:
		return fmt.Errorf("rotate the %s of cluster %s: the host cluster's copy, Secret %s, is gone", it.name, cluster, at)
	}
	lost := !bytes.Equal(present.Data[it.rotation], stored)
	if !lost {
		present.Data[it.rotation] = raw
		lost, err = s.Host.Write(ctx, present)
	}
	if lost && err == nil {
		err = apierrors.NewConflict(corev1.Resource("secrets"), at.Name, errFaster)
	}
	if err != nil {
		return fmt.Errorf("rotate the %s of cluster %s: %w", it.name, cluster, err)
	}
	return nil
}

func itemOf(kind string) item {
	return items[slices.IndexFunc(items, func(it item) bool { return it.name == kind })]
}

// readRotations reads the Secret of rotations. Tenants that never rotated a key have none, and are not asked for it again and again:
// the cache has what is ours.
func (s *Store) readRotations(ctx context.Context, read *copies, live bool) error {
	found := &corev1.Secret{}
	reader, cached := s.Management.Cached, true
	if live || read.host == nil {
		reader, cached = s.Management.Live, false
	}
	err := reader.Get(ctx, read.rotationLocation().ObjectKey, found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s: %w", read.rotationLocation(), err)
	}
	if read.fromCache = read.fromCache || cached; err == nil {
		read.rotation = found
	}
	return nil
}

func (c *copies) rotationLocation() Location {
	return Location{ObjectKey: client.ObjectKey{Namespace: c.cluster.Namespace, Name: secret.Name(c.cluster.Name, RotationPurpose)}}
}

// mergeRotations takes each rotation from the host cluster's copy, or from the other where there is none.
func (c *copies) mergeRotations() error {
	c.rotations = map[string]*Rotation{}
	for _, it := range items {
		if it.rotation == "" {
			continue
		}
		host, err := parseRotation(it, c.host, c.hostLocation(), fmt.Sprintf("restore it from a backup, or from %s", c.rotationLocation()))
		if err != nil {
			return err
		}
		management, err := parseRotation(it, c.rotation, c.rotationLocation(), "delete it: it is made again from "+c.hostLocation().String())
		if err != nil && host == nil {
			return err
		}
		switch {
		case host != nil:
			c.rotations[it.name] = host
		case management == nil:
		case c.host == nil || c.hasFiles(it, management):
			c.rotations[it.name] = management
		default:
			return &InvalidError{
				Location: c.rotationLocation(), DataKey: it.rotation,
				Problem: fmt.Sprintf("has a rotation of the %s that %s does not know", it.name, c.hostLocation()),
				Remedy:  fmt.Sprintf("delete it; but if somebody removed data key %q there, delete %s, which is made again with it", it.rotation, c.hostLocation()),
			}
		}
	}
	return nil
}

func parseRotation(it item, from *corev1.Secret, at Location, remedy string) (*Rotation, error) {
	if from == nil || len(from.Data[it.rotation]) == 0 {
		return nil, nil
	}
	invalid := func(problem string) error {
		return &InvalidError{Location: at, DataKey: it.rotation, Problem: problem, Remedy: remedy}
	}
	r := &Rotation{raw: from.Data[it.rotation]}
	if err := json.Unmarshal(r.raw, r); err != nil {
		return nil, invalid(fmt.Sprintf("is no rotation of a key (%v)", err))
	}
	for _, key := range it.managementKeys {
		r.parts = append(r.parts, r.Key[key])
	}
	if !complete(r.parts) {
		return nil, invalid("is a rotation without its new key")
	}
	if err := it.check(r.parts); err != nil {
		return nil, invalid("has a new key of which a part " + err.Error())
	}
	return r, nil
}

// hasFiles reports whether the host cluster's copy has the files of a rotation's new key.
func (c *copies) hasFiles(it item, r *Rotation) bool {
	for i, key := range it.hostKeys {
		if !bytes.Equal(c.host.Data[KeyFile(key, r.File())], r.parts[i]) {
			return false
		}
	}
	return true
}

// isFormer reports whether a copy still has the key that a rotation has replaced.
func (c *copies) isFormer(it item, parts [][]byte) bool {
	r := c.rotations[it.name]
	return r != nil && r.Phase == rotation.Over && complete(parts) && fingerprint(parts) == r.Former
}

// renewed is what a copy has to be: the new key once a rotation is over.
func (c *copies) renewed(it item, parts [][]byte) [][]byte {
	if c.isFormer(it, parts) {
		return c.rotations[it.name].parts
	}
	return parts
}

// asRotated holds what both copies have to their rotation. A key that both lost is in the rotation once that is over.
func (c *copies) asRotated(it item, value [][]byte) ([][]byte, error) {
	r := c.rotations[it.name]
	if r == nil {
		return value, nil
	}
	wanted := r.Former
	if r.Phase == rotation.Over {
		if value == nil {
			return r.parts, nil
		}
		wanted = fingerprint(r.parts)
	}
	if value != nil && fingerprint(value) != wanted {
		return nil, &InvalidError{
			Location: c.hostLocation(), DataKey: it.hostKeys[publicPart],
			Problem: fmt.Sprintf("the %s (%s) is neither the one before its last rotation nor the one after it (%s)", it.name, fingerprint(value), wanted),
			Remedy:  fmt.Sprintf("restore it and %s from a backup", c.managementLocation(it)),
		}
	}
	return value, nil
}

// joined is two public parts as one. Of a CA, the first part belongs to its private key.
func joined(first, other []byte) []byte {
	return slices.Concat(bytes.TrimSpace(first), []byte("\n"), other)
}

// KeyFile is the data key of a part of a key, in the host cluster's copy: "sa.pub" becomes "sa-<digits>.pub" for a key that a rotation made.
// No other key ever has that name: a pod that mounts it gets this key or does not start, whatever its kubelet knows of the Secret.
func KeyFile(hostKey, file string) string {
	if file == "" {
		return hostKey
	}
	ending := path.Ext(hostKey)
	return strings.TrimSuffix(hostKey, ending) + "-" + file + ending
}

// firstFile stands, in names of files that have several keys, for the key that the tenant was made with.
const firstFile = "first"

// joinedFile is the name of a file that has several keys, by what the names of their own files end in: "ca.crt" becomes
// "ca-first-<digits>.crt".
func joinedFile(name string, keys ...string) string {
	ending := path.Ext(name)
	base := strings.TrimSuffix(name, ending)
	for _, key := range keys {
		if key == "" {
			key = firstFile
		}
		base += "-" + key
	}
	return base + ending
}

// isFileOf reports whether a data key is one that KeyFile or joinedFile made.
func isFileOf(hostKey, dataKey string) bool {
	ending := path.Ext(hostKey)
	rest, made := strings.CutPrefix(dataKey, strings.TrimSuffix(hostKey, ending)+"-")
	files, made2 := strings.CutSuffix(rest, ending)
	return made && made2 && !slices.ContainsFunc(strings.Split(files, "-"), func(file string) bool {
		return file != firstFile && (len(file) != fileDigits || strings.Trim(file, "0123456789abcdef") != "")
	})
}

// fillRotation sets the rotation and the files of its keys, and removes files of former ones.
func (c *copies) fillRotation(host *corev1.Secret, it item, value [][]byte) {
	r := c.rotations[it.name]
	if r == nil {
		return
	}
	host.Data[it.rotation] = r.raw
	files := map[string][]byte{}
	if trusted := it.hostKeys[publicPart]; it.oneFile && r.UnderWay() {
		files[joinedFile(trusted, r.FormerFile, r.File())] = joined(value[publicPart], r.parts[publicPart])
	}
	for i, key := range it.hostKeys {
		files[KeyFile(key, r.File())] = r.parts[i]
		if r.Phase != rotation.Over && r.FormerFile != "" {
			files[KeyFile(key, r.FormerFile)] = value[i]
		}
		maps.DeleteFunc(host.Data, func(present string, _ []byte) bool { return files[present] == nil && isFileOf(key, present) })
	}
	maps.Copy(host.Data, files)
}

// rotationWrite is the Secret of rotations in the management cluster when it must be written; nil otherwise.
func (c *copies) rotationWrite(request Request) *corev1.Secret {
	data := map[string][]byte{}
	for _, it := range items {
		if r := c.rotations[it.name]; r != nil {
			data[it.rotation] = r.raw
		}
	}
	if len(data) == 0 {
		return nil
	}
	at := c.rotationLocation()
	wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}, Type: clusterv1.ClusterSecretType}
	if c.rotation != nil {
		wanted = c.rotation.DeepCopy()
	}
	secrets.Own(wanted, names.ComponentLabels(c.cluster, names.PKI), request.Owner)
	wanted.Data = data
	if c.rotation != nil && apiequality.Semantic.DeepEqual(c.rotation, wanted) {
		return nil
	}
	return wanted
}

func (s *Store) writeRotations(ctx context.Context, request Request, read *copies) (lost bool, err error) {
	wanted := read.rotationWrite(request)
	if wanted == nil {
		return false, nil
	}
	return s.Management.Write(ctx, wanted)
}

func clearKeys(secret *corev1.Secret, keys []string) {
	for _, key := range keys {
		delete(secret.Data, key)
	}
}
