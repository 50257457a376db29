package archive

import (
	"bytes"
	"testing"

	"filippo.io/age"
)

// FuzzManifest gives the reader of manifests any file. What it takes was written by this key, and is what was written.
func FuzzManifest(f *testing.F) {
	k := key(f, "a")
	m := manifest(Sum{10, HashOf([]byte("a"))}, Sum{1056, HashOf([]byte("b"))})
	file, err := k.Sign(m)
	must(f, err)
	foreign, err := key(f, "b").Sign(m)
	must(f, err)
	verification, err := k.SignVerification(Verification{Manifest: HashOf(file)})
	must(f, err)
	for _, seed := range [][]byte{file, foreign, verification, file[:len(file)/2], []byte("{}"), []byte(`{"format":1,"body":null}`), []byte(`{"format":1,"FORMAT":2}`), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, changed []byte) {
		got, err := k.Read("fuzzed", changed)
		if err == nil && got != m || err != nil && ReasonOf(err) == "" {
			t.Errorf("it gave %+v: %v", got, err)
		}
		if _, err := k.ReadVerification("fuzzed", changed, file); err != nil && ReasonOf(err) == "" {
			t.Errorf("of a verification it says: %v", err)
		}
		// Even a manifest that is signed is checked.
		resigned, err := k.sign(useManifest, rawJSON(changed))
		if err != nil {
			return
		}
		if got, err := k.Read("fuzzed", resigned); err == nil && got.check() != nil || err != nil && ReasonOf(err) == "" {
			t.Errorf("signed, it gave %+v: %v", got, err)
		}
	})
}

// rawJSON is a body as it is.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// FuzzObject gives the reader of objects any bytes, by a manifest that has their own sizes and hashes, as somebody would who
// has the key. Nothing is written beyond what the manifest says, and what is taken is a whole snapshot.
func FuzzObject(f *testing.F) {
	tenant := identity(f)
	plain := whole(1)
	object, m := sealed(f, plain, tenant)
	f.Add(object, true)
	f.Add(object, false)
	f.Add(object[:len(object)/2], true)
	f.Add([]byte("age-encryption.org/v1\n-> X25519 a\nb\n--- c\n"), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, changed []byte, hashed bool) {
		lie := m
		if hashed {
			lie.Encrypted = Sum{int64(len(changed)), HashOf(changed)}
		}
		var out bytes.Buffer
		err := Extract(&out, bytes.NewReader(changed), lie, []age.Identity{tenant})
		if int64(out.Len()) > m.Plain.Bytes || err == nil && !bytes.Equal(out.Bytes(), plain) || err != nil && ReasonOf(err) == "" {
			t.Errorf("it gave %d bytes: %v", out.Len(), err)
		}
	})
}

// FuzzPacked is the same for what is inside of age: no byte of the key is needed to get there.
func FuzzPacked(f *testing.F) {
	tenant := identity(f)
	plain := whole(5)
	_, m := sealed(f, plain, tenant)
	f.Add(plain)
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var object bytes.Buffer
		w, err := age.Encrypt(&object, tenant.Recipient())
		must(t, err)
		_, err = w.Write(packed)
		must(t, err)
		must(t, w.Close())
		lie := m
		lie.Encrypted = Sum{int64(object.Len()), HashOf(object.Bytes())}
		var out bytes.Buffer
		if err := Extract(&out, &object, lie, []age.Identity{tenant}); int64(out.Len()) > m.Plain.Bytes || err == nil && !bytes.Equal(out.Bytes(), plain) || err != nil && ReasonOf(err) == "" {
			t.Errorf("it gave %d bytes: %v", out.Len(), err)
		}
	})
}
