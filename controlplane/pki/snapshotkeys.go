package pki

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"filippo.io/age"
	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// Labels of the keys that are derived from a tenant's encryption key. Another label would give another key, and existing snapshots could no
// longer be read.
const (
	labelSnapshotsHMAC = "kok etcd snapshots hmac"
	labelSnapshotsAge  = "kok etcd snapshots age"
	labelSnapshotsID   = "kok etcd snapshots id"
)

// secretKeyOfAge begins a secret key of age, as its format has it.
const secretKeyOfAge = "AGE-SECRET-KEY-"

// SnapshotKeys are the keys of the snapshots that are taken now. They derive from the former encryption key until API servers drop it, because
// until then some of what is in etcd may be encrypted by it, and from the new one after that. API servers that have dropped a key must not get
// a snapshot that needs it.
func (m *KeyMaterial) SnapshotKeys() (hmacKey []byte, identity *age.X25519Identity, id string, err error) {
	value := m.EncryptionKey
	if r := m.rotations[Encryption]; r != nil && (r.Phase == rotation.Dropping || r.Phase == rotation.Over) {
		value = r.parts[publicPart]
	}
	if keys := splitEncryptionKeys(value); len(keys) > 0 {
		value = keys[0]
	}
	return SnapshotKeys(value)
}

// SnapshotKeys derives from an encryption key what the snapshots of a tenant's etcd are signed and encrypted with, so that
// whoever has the tenant's key material needs no other key. hmacKey is text without white space, as files of keys are. id names
// the encryption key without telling it.
func SnapshotKeys(encryptionKey []byte) (hmacKey []byte, identity *age.X25519Identity, id string, err error) {
	if len(encryptionKey) != encryptionKeySize {
		return nil, nil, "", fmt.Errorf("derive the keys of snapshots: the encryption key has %d bytes, want %d", len(encryptionKey), encryptionKeySize)
	}
	derived := map[string][]byte{}
	for label, size := range map[string]int{labelSnapshotsHMAC: 32, labelSnapshotsAge: 32, labelSnapshotsID: 8} {
		if derived[label], err = hkdf.Key(sha256.New, encryptionKey, nil, label, size); err != nil {
			return nil, nil, "", fmt.Errorf("derive the keys of snapshots: %w", err)
		}
	}
	// age makes an identity of text alone.
	text, err := bech32.EncodeFromBase256(secretKeyOfAge, derived[labelSnapshotsAge])
	if err != nil {
		return nil, nil, "", fmt.Errorf("derive the keys of snapshots: %w", err)
	}
	if identity, err = age.ParseX25519Identity(strings.ToUpper(text)); err != nil {
		return nil, nil, "", fmt.Errorf("derive the keys of snapshots: %w", err)
	}
	return hex.AppendEncode(nil, derived[labelSnapshotsHMAC]), identity, hex.EncodeToString(derived[labelSnapshotsID]), nil
}
