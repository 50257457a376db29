package pki

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"filippo.io/age"
)

// Snapshots that there are must stay readable: what is derived of a key never changes.
func TestKeysOfSnapshotsAreStable(t *testing.T) {
	hmacKey, identity, id, err := SnapshotKeys(bytes.Repeat([]byte{7}, encryptionKeySize))
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"key of manifests": {string(hmacKey), "181f9b9fc451abd2251d68b87d31ac2c3742e2cf97317aa71e47f434d7790493"},
		"recipient":        {identity.Recipient().String(), "age17su4p2hhvph4zsuerwwy5lak55q2zlpjl2vlpxj8p3ssvc84tawsjppmql"},
		"ID":               {id, "7c58f62a4a987475"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the %s is %s, want %s", what, pair[0], pair[1])
		}
	}
	other, _, otherID, err := SnapshotKeys(bytes.Repeat([]byte{8}, encryptionKeySize))
	if err != nil || bytes.Equal(other, hmacKey) || otherID == id {
		t.Errorf("another key gives the same, %v", err)
	}
	if _, _, _, err := SnapshotKeys([]byte("short")); err == nil {
		t.Error("a short key is taken")
	}
}

func encoded(t *testing.T, m *KeyMaterial) []byte {
	t.Helper()
	keys, err := EncodeKeys(m)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// throughBundle encodes key material as a bundle, and returns what a reader of that bundle gets.
func throughBundle(t *testing.T, m *KeyMaterial) *KeyMaterial {
	t.Helper()
	read, err := DecodeKeys(encoded(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func person(t *testing.T) *age.X25519Identity {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func TestKeysComeBackFromABundle(t *testing.T) {
	w := newWorld(t)
	material := w.ensure()
	keys := encoded(t, material)
	one, two, stranger := person(t), person(t), person(t)
	sealed, err := SealKeys(keys, []string{one.Recipient().String(), two.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("PRIVATE KEY")) || bytes.Contains(sealed, material.EncryptionKey) {
		t.Error("keys can be read")
	}
	for _, identity := range []age.Identity{one, two} {
		opened, err := OpenKeys(sealed, []age.Identity{identity})
		if err != nil || !bytes.Equal(opened, keys) {
			t.Fatalf("the bundle is another one, %v", err)
		}
	}
	var nobody *age.NoIdentityMatchError
	if _, err := OpenKeys(sealed, []age.Identity{stranger}); !errors.As(err, &nobody) {
		t.Errorf("a stranger gets %v", err)
	}
	if _, err := OpenKeys(sealed[:len(sealed)-1], []age.Identity{one}); err == nil {
		t.Error("a bundle without its end is taken")
	}

	// A new Cluster with these Secrets has the keys of the former one.
	decoded, err := DecodeKeys(keys)
	if err != nil || !bytes.Equal(encoded(t, decoded), keys) {
		t.Fatalf("decoded, keys are others, %v", err)
	}
	again := newWorld(t)
	for _, secret := range ManagementSecrets(cluster, decoded) {
		if err := again.Management.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	taken := again.ensure()
	if len(taken.Generated) > 0 || !bytes.Equal(encoded(t, taken), keys) {
		t.Errorf("%v is generated beside the Secrets", taken.Generated)
	}
	same(t, material, taken)
}

func TestABundleThatIsNotWholeIsRefused(t *testing.T) {
	keys := string(encoded(t, newWorld(t).ensure()))
	other := string(encoded(t, newWorld(t).ensure()))
	// The key of another CA stands where the events etcd's was.
	swapped := strings.Replace(keys, between(t, keys, `"events etcd CA":`), between(t, other, `"etcd CA":`), 1)
	for says, text := range map[string]string{
		"decode key material: ":          keys[:len(keys)-1],
		"version 2, and this program":    strings.Replace(keys, `"version":1`, `"version":2`, 1),
		"tls.crt of the front proxy CA":  strings.Replace(keys, "front proxy CA", "another CA", 1),
		"encryption-key of the encrypt":  strings.Replace(keys, between(t, keys, `"encryption key":`), `{"encryption-key":"c2hvcnQ="}`, 1),
		"is no PEM certificate":          strings.Replace(keys, between(t, keys, `"cluster CA":`), `{"tls.crt":"eA==","tls.key":"eA=="}`, 1),
		"version 0, and this program re": "{}",
	} {
		if _, err := DecodeKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	if _, err := DecodeKeys([]byte(swapped)); err != nil {
		t.Errorf("a whole pair is refused: %v", err)
	}
	if _, err := EncodeKeys(&KeyMaterial{}); err == nil {
		t.Error("no keys are encoded")
	}
}

// between is the object after a text of a bundle.
func between(t *testing.T, text, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, after)
	if !found {
		t.Fatalf("no %s", after)
	}
	return rest[:strings.Index(rest, "}")+1]
}

func TestRecipientsOfABundle(t *testing.T) {
	one := person(t)
	for says, recipients := range map[string][]string{
		"there is no recipient":   nil,
		"a secret key stands":     {one.String()},
		"is no public key":        {"age1nobody"},
		"\"ssh-ed25519 AAAA\" is": {"ssh-ed25519 AAAA"},
	} {
		_, err := SealKeys([]byte("keys"), recipients)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), one.String()) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func TestTheIDOfABundle(t *testing.T) {
	id := KeysID([]byte("keys"), []string{"age1a", "age1b"})
	if len(id) != 32 {
		t.Errorf("the ID is %s", id)
	}
	if again := KeysID([]byte("keys"), []string{"age1b", "age1a"}); again != id {
		t.Errorf("another order gives %s, not %s", again, id)
	}
	for _, other := range []string{KeysID([]byte("other"), []string{"age1a", "age1b"}), KeysID([]byte("keys"), []string{"age1a"}), KeysID([]byte("keys"), nil)} {
		if other == id {
			t.Error("something else has the same ID")
		}
	}
}
