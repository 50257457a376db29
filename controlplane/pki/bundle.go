package pki

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	bundleVersion = 1
	// MaxBundle bounds the bytes of key material, sealed or not.
	MaxBundle = 1 << 20
)

// bundle is the key material of a tenant as bytes: the parts of each item, by the keys that its Secret in the management
// cluster has.
type bundle struct {
	Version int                          `json:"version"`
	Items   map[string]map[string][]byte `json:"items"`
}

// EncodeKeys gives key material as bytes that are the same for the same keys. It is for key material of Ensure or DecodeKeys. While
// a key rotates, whoever has the bytes trusts both keys.
func EncodeKeys(m *KeyMaterial) ([]byte, error) {
	b := bundle{Version: bundleVersion, Items: map[string]map[string][]byte{}}
	for _, it := range items {
		parts := m.bundled(it)
		if len(parts) != len(it.managementKeys) {
			return nil, fmt.Errorf("encode key material: the %s is missing", it.name)
		}
		b.Items[it.name] = map[string][]byte{}
		for i, key := range it.managementKeys {
			b.Items[it.name][key] = parts[i]
		}
	}
	return json.Marshal(b)
}

// DecodeKeys reads what EncodeKeys gave, and checks every key.
func DecodeKeys(keys []byte) (*KeyMaterial, error) {
	var b bundle
	if err := json.Unmarshal(keys, &b); err != nil {
		return nil, fmt.Errorf("decode key material: %w", err)
	}
	if b.Version != bundleVersion {
		return nil, fmt.Errorf("decode key material: it has version %d, and this program reads %d: use a newer one", b.Version, bundleVersion)
	}
	values := map[string][][]byte{}
	for _, it := range items {
		parts := make([][]byte, len(it.managementKeys))
		for i, key := range it.managementKeys {
			if parts[i] = b.Items[it.name][key]; len(parts[i]) == 0 {
				return nil, fmt.Errorf("decode key material: %s of the %s is missing", key, it.name)
			}
		}
		var bad *partError
		if err := it.check(parts); errors.As(err, &bad) {
			return nil, fmt.Errorf("decode key material: %s of the %s %w", it.managementKeys[bad.part], it.name, bad)
		}
		values[it.name] = parts
	}
	return newKeyMaterial(values)
}

// Replaced are the kinds of keys, by their names in messages, of which newer key material of the tenant has others.
func (m *KeyMaterial) Replaced(newer *KeyMaterial) []string {
	var kinds []string
	for _, it := range items {
		if fingerprint(m.parts[it.name]) != fingerprint(newer.parts[it.name]) {
			kinds = append(kinds, it.name)
		}
	}
	return kinds
}

// ManagementSecrets are the Secrets with the key material of a Cluster, as a person makes them before its control plane: the
// controller takes such keys, and leaves the Secrets alone.
func ManagementSecrets(cluster client.ObjectKey, m *KeyMaterial) []*corev1.Secret {
	secrets := make([]*corev1.Secret, 0, len(items))
	for _, it := range items {
		data := map[string][]byte{}
		for i, key := range it.managementKeys {
			data[key] = m.parts[it.name][i]
		}
		secrets = append(secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, it.purpose),
				Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			},
			Type: clusterv1.ClusterSecretType, Data: data,
		})
	}
	return secrets
}

// SealKeys encrypts key material for people, by their public keys of age.
func SealKeys(keys []byte, recipients []string) ([]byte, error) {
	if len(recipients) == 0 {
		return nil, errors.New("encrypt key material: there is no recipient")
	}
	all := make([]age.Recipient, 0, len(recipients))
	for _, recipient := range recipients {
		// A secret key that stands there by mistake must not come into a message.
		if strings.HasPrefix(strings.ToUpper(recipient), secretKeyOfAge) {
			return nil, errors.New("encrypt key material: a secret key stands among the recipients: put the public one there, and make a new key")
		}
		found, err := age.ParseRecipients(strings.NewReader(recipient))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("encrypt key material: %.80q is no public key of age (age1...)", recipient)
		}
		all = append(all, found[0])
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, all...)
	if err != nil {
		return nil, fmt.Errorf("encrypt key material: %w", err)
	}
	if _, err := w.Write(keys); err != nil {
		return nil, fmt.Errorf("encrypt key material: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt key material: %w", err)
	}
	return sealed.Bytes(), nil
}

// OpenKeys decrypts what SealKeys gave. The error is an *age.NoIdentityMatchError where no identity is one of its recipients.
func OpenKeys(sealed []byte, identities []age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), identities...)
	if err != nil {
		return nil, fmt.Errorf("decrypt key material: %w", err)
	}
	keys, err := io.ReadAll(io.LimitReader(r, MaxBundle+1))
	if err != nil {
		return nil, fmt.Errorf("decrypt key material: %w", err)
	}
	if len(keys) > MaxBundle {
		return nil, fmt.Errorf("decrypt key material: it has more than %d bytes", MaxBundle)
	}
	return keys, nil
}

// labelKeysID is for a key of its own: the ID must not tell whether somebody's guess of a key is right, as a plain hash would.
const labelKeysID = "kok etcd snapshots keys id"

// KeysID identifies key material together with those who can read it. Other keys or other recipients give another ID; the order of
// recipients does not matter. The ID tells neither.
func KeysID(keys []byte, recipients []string) string {
	key, err := hkdf.Key(sha256.New, keys, nil, labelKeysID, sha256.Size)
	if err != nil {
		panic(err) // Only a size that is too large is an error.
	}
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(keys)
	for _, recipient := range slices.Sorted(slices.Values(recipients)) {
		_, _ = h.Write([]byte("\n" + recipient))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
