package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// whole is what etcd sends of a database with so many sectors.
func whole(sectors int) []byte {
	database := make([]byte, sectors*sector)
	random := rand.New(rand.NewPCG(1, uint64(sectors)))
	for i := range database {
		// Some of it can be compressed.
		database[i] = byte(random.IntN(7))
	}
	sum := sha256.Sum256(database)
	return append(database, sum[:]...)
}

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	must(t, err)
	return i
}

func key(t testing.TB, letter string) Key {
	t.Helper()
	k, err := NewKey([]byte(strings.Repeat(letter, minKey) + "\n"))
	must(t, err)
	return k
}

var taken = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func manifest(encrypted, plain Sum) Manifest {
	return Manifest{
		Cluster: Cluster{"team-a", "one", "0b1c"}, Member: "one-etcd-data-0", Slot: SlotOf(taken, time.Hour), Taken: taken, EtcdVersion: "3.6.14",
		StorageVersion: "3.6", Revision: 7, CompactRevision: -1, HashKV: 9, EncryptionKeyID: "key-1", Object: "20260304T050000Z-00000000.zst.age",
		Encrypted: encrypted, Plain: plain,
	}
}

// sealed is an object with its manifest.
func sealed(t testing.TB, plain []byte, identities ...*age.X25519Identity) ([]byte, Manifest) {
	t.Helper()
	var keys []string
	for _, i := range identities {
		keys = append(keys, i.Recipient().String())
	}
	recipients, err := ParseRecipients(keys)
	must(t, err)
	var object bytes.Buffer
	encrypted, of, err := Seal(&object, bytes.NewReader(plain), recipients)
	must(t, err)
	return object.Bytes(), manifest(encrypted, of)
}

func TestWhatIsSealedIsExtractedByEachRecipient(t *testing.T) {
	tenant, person := identity(t), identity(t)
	for _, sectors := range []int{1, 2, 127, 128, 4096} {
		plain := whole(sectors)
		object, m := sealed(t, plain, tenant, person)
		if m.Encrypted.Bytes != int64(len(object)) || m.Encrypted.SHA256 != HashOf(object) || m.Plain.Bytes != int64(len(plain)) || m.Plain.SHA256 != HashOf(plain) {
			t.Errorf("the sums are %+v and %+v", m.Encrypted, m.Plain)
		}
		for _, i := range []age.Identity{tenant, person} {
			var out bytes.Buffer
			must(t, Extract(&out, iotest.HalfReader(bytes.NewReader(object)), m, []age.Identity{i}))
			if !bytes.Equal(out.Bytes(), plain) {
				t.Errorf("of %d sectors something else came back", sectors)
			}
		}
	}
}

// What a person does without this program.
func TestAgeAndZstdAloneReadAnObject(t *testing.T) {
	plain, person := whole(300), identity(t)
	object, _ := sealed(t, plain, identity(t), person)
	opened, err := age.Decrypt(bytes.NewReader(object), person)
	must(t, err)
	unpacked, err := zstd.NewReader(opened)
	must(t, err)
	defer unpacked.Close()
	if out, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(out, plain) {
		t.Errorf("it gave %d bytes: %v", len(out), err)
	}
}

func TestBadObjectsAreRefused(t *testing.T) {
	tenant := identity(t)
	plain := whole(2000)
	object, m := sealed(t, plain, tenant)
	other, otherManifest := sealed(t, whole(2001), tenant)
	flipped := func(at int) []byte { out := bytes.Clone(object); out[at] ^= 1; return out }
	lies := func(change func(*Manifest)) Manifest { lie := m; change(&lie); return lie }
	for name, test := range map[string]struct {
		object []byte
		m      Manifest
		keys   []age.Identity
		want   Reason
		says   string
	}{
		"nothing":                  {nil, m, []age.Identity{tenant}, Truncated, "has 0 bytes, and its manifest says"},
		"the end is missing":       {object[:len(object)-1], m, []age.Identity{tenant}, Truncated, "take another snapshot"},
		"the header is cut off":    {object[:50], m, []age.Identity{tenant}, Truncated, ""},
		"a byte in the middle":     {flipped(len(object) / 2), m, []age.Identity{tenant}, Tampered, "SHA-256"},
		"a byte of the header":     {flipped(30), m, []age.Identity{tenant}, Tampered, ""},
		"the last byte":            {flipped(len(object) - 1), m, []age.Identity{tenant}, Tampered, ""},
		"more bytes":               {append(bytes.Clone(object), 0), m, []age.Identity{tenant}, Tampered, ""},
		"another one of the same":  {other[:len(object)], m, []age.Identity{tenant}, Tampered, ""},
		"no header at all":         {bytes.Repeat([]byte{'a'}, len(object)), m, []age.Identity{tenant}, Tampered, ""},
		"the key of somebody else": {object, m, []age.Identity{identity(t), identity(t)}, KeyMissing, "none of the 2 keys"},
		"a lie about the size":     {object, lies(func(m *Manifest) { m.Plain.Bytes -= sector }), []age.Identity{tenant}, Tampered, "more than its manifest says"},
		"a lie about the hash":     {object, lies(func(m *Manifest) { m.Plain.SHA256 = otherManifest.Plain.SHA256 }), []age.Identity{tenant}, Tampered, "not what its manifest says"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Extract(io.Discard, bytes.NewReader(test.object), test.m, test.keys)
			if ReasonOf(err) != test.want || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), m.Object) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// A disk that is full, or a connection that ends, says nothing of the snapshot.
func TestErrorsOfReadingAndWritingAreNoRefusals(t *testing.T) {
	tenant, oh := identity(t), errors.New("oh")
	object, m := sealed(t, whole(2000), tenant)
	err := Extract(io.Discard, io.MultiReader(bytes.NewReader(object[:len(object)/2]), iotest.ErrReader(oh)), m, []age.Identity{tenant})
	if !errors.Is(err, oh) || ReasonOf(err) != "" {
		t.Errorf("reading: %v", err)
	}
	err = Extract(failing{oh}, bytes.NewReader(object), m, []age.Identity{tenant})
	if !errors.Is(err, oh) || ReasonOf(err) != "" {
		t.Errorf("writing: %v", err)
	}
	for name, plain := range map[string]io.Reader{"reading": iotest.ErrReader(oh), "writing": bytes.NewReader(whole(9999))} {
		to := io.Writer(failing{oh})
		if name == "reading" {
			to = io.Discard
		}
		if _, _, err := Seal(to, plain, []age.Recipient{tenant.Recipient()}); !errors.Is(err, oh) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A connection that is cut looks like an end.
func TestWhatEtcdDidNotSendToItsEndIsNotSealed(t *testing.T) {
	plain := whole(100)
	changed := bytes.Clone(plain)
	changed[7] ^= 1
	for name, part := range map[string][]byte{
		"nothing": {}, "a hash alone": plain[len(plain)-trailer:], "a sector": plain[:sector], "without the hash": plain[:len(plain)-trailer],
		"half the hash": plain[:len(plain)-1], "another byte": changed,
	} {
		if _, _, err := Seal(io.Discard, iotest.OneByteReader(bytes.NewReader(part)), []age.Recipient{identity(t).Recipient()}); !errors.Is(err, ErrNotWhole) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadManifestsAreRefused(t *testing.T) {
	k, m := key(t, "a"), manifest(Sum{10, strings.Repeat("a", 64)}, Sum{1056, strings.Repeat("b", 64)})
	file, err := k.Sign(m)
	must(t, err)
	got, err := k.Read("x", file)
	if err != nil || got != m {
		t.Fatalf("it gave %+v: %v", got, err)
	}
	// resigned is a manifest that makes no sense, by the right key.
	resigned := func(change func(*Manifest)) []byte {
		lie := m
		change(&lie)
		file, err := k.sign(useManifest, lie)
		must(t, err)
		return file
	}
	outer := func(change func(*signed)) []byte {
		var s signed
		must(t, json.Unmarshal(file, &s))
		change(&s)
		file, err := json.Marshal(s)
		must(t, err)
		return file
	}
	foreign, err := key(t, "b").Sign(m)
	must(t, err)
	verification, err := k.SignVerification(Verification{Manifest: HashOf(file)})
	must(t, err)
	for name, test := range map[string]struct {
		file []byte
		want Reason
	}{
		"nothing":                   {nil, Truncated},
		"half of it":                {file[:len(file)/2], Truncated},
		"without its last brace":    {file[:len(file)-2], Truncated},
		"something else":            {[]byte("<html>"), Tampered},
		"a list":                    {[]byte("[]"), Tampered},
		"an empty one":              {[]byte("{}"), Foreign},
		"far too long":              {bytes.Repeat([]byte(" "), MaxManifest+1), Tampered},
		"another revision":          {bytes.Replace(file, []byte(`"revision":7`), []byte(`"revision":8`), 1), Tampered},
		"formatted anew":            {bytes.Replace(file, []byte(`"revision":7`), []byte(`"revision": 7`), 1), Tampered},
		"another format":            {bytes.Replace(file, []byte(`"format":1`), []byte(`"format":2`), 1), TooNew},
		"an older format":           {bytes.Replace(file, []byte(`"format":1`), []byte(`"format":0`), 1), Tampered},
		"another tenant":            {foreign, Foreign},
		"another tenant's, renamed": {bytes.Replace(foreign, []byte(key(t, "b").ID()), []byte(k.ID()), 1), Tampered},
		"no HMAC":                   {outer(func(s *signed) { s.HMAC = "" }), Tampered},
		"a short HMAC":              {outer(func(s *signed) { s.HMAC = s.HMAC[:2] }), Tampered},
		"a verification":            {verification, Tampered},
		"no object":                 {resigned(func(m *Manifest) { m.Object = "" }), Tampered},
		"a path":                    {resigned(func(m *Manifest) { m.Object = "../x" }), Tampered},
		"no revision":               {resigned(func(m *Manifest) { m.Revision = 0 }), Tampered},
		"compacted beyond":          {resigned(func(m *Manifest) { m.CompactRevision = 8 }), Tampered},
		"no version":                {resigned(func(m *Manifest) { m.StorageVersion = "new" }), Tampered},
		"no size":                   {resigned(func(m *Manifest) { m.Plain.Bytes = 0 }), Tampered},
		"no time":                   {resigned(func(m *Manifest) { m.Slot = time.Time{} }), Tampered},
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := k.Read("x.json", test.file); ReasonOf(err) != test.want || !strings.Contains(err.Error(), "x.json") || m != (Manifest{}) {
				t.Errorf("it says %v", err)
			}
		})
	}
	if _, err := k.Sign(Manifest{}); err == nil {
		t.Error("a manifest that says nothing is signed")
	}
}

func TestAVerificationIsOfOneManifest(t *testing.T) {
	k := key(t, "a")
	v := Verification{Manifest: HashOf([]byte("this")), Verified: taken, EtcdVersion: "3.6.14", Revision: 8}
	file, err := k.SignVerification(v)
	must(t, err)
	if got, err := k.ReadVerification("v", file, []byte("this")); err != nil || got != v {
		t.Errorf("it gave %+v: %v", got, err)
	}
	if _, err := k.ReadVerification("v", file, []byte("that")); ReasonOf(err) != Tampered {
		t.Errorf("of another manifest: %v", err)
	}
	if _, err := key(t, "b").ReadVerification("v", file, []byte("this")); ReasonOf(err) != Foreign {
		t.Errorf("of another tenant: %v", err)
	}
}

func TestASnapshotIsOfThisTenantAndNotForANewerEtcd(t *testing.T) {
	m := manifest(Sum{}, Sum{})
	for _, test := range []struct {
		e    Expected
		want Reason
	}{
		{Expected{}, ""}, {Expected{UID: "0b1c", EtcdVersion: "3.6.0"}, ""}, {Expected{EtcdVersion: "v3.7.1"}, ""}, {Expected{EtcdVersion: "4.0"}, ""}, {Expected{EtcdVersion: "3.10.1"}, ""},
		{Expected{UID: "0b1d"}, Foreign}, {Expected{EtcdVersion: "3.5.21"}, TooNew}, {Expected{EtcdVersion: "2.9.1"}, TooNew},
	} {
		if err := m.Meets(test.e); ReasonOf(err) != test.want || test.want == "" && err != nil {
			t.Errorf("%+v: %v", test.e, err)
		}
	}
	if err := m.Meets(Expected{EtcdVersion: "new"}); err == nil || ReasonOf(err) != "" {
		t.Errorf("of no version it says %v", err)
	}
}

func TestKeysOfManifestsAreLongEnough(t *testing.T) {
	for _, bad := range []string{"", strings.Repeat("a", minKey-1), strings.Repeat("a", minKey-1) + "\n", strings.Repeat("a", maxKey+1)} {
		if _, err := NewKey([]byte(bad)); err == nil {
			t.Errorf("a key of %d bytes is taken", len(bad))
		}
	}
}

func TestRecipientsAreKeysOfAgeOfOneKind(t *testing.T) {
	hybrid, err := age.GenerateHybridIdentity()
	must(t, err)
	a, pq := identity(t), hybrid.Recipient().String()
	for name, test := range map[string]struct {
		keys []string
		says string
	}{
		"one":               {[]string{a.Recipient().String()}, ""},
		"two":               {[]string{a.Recipient().String(), identity(t).Recipient().String()}, ""},
		"post-quantum":      {[]string{pq, pq}, ""},
		"none":              {nil, "there is no recipient"},
		"mixed":             {[]string{a.Recipient().String(), pq}, "does not mix"},
		"a secret":          {[]string{a.String()}, "a secret key stands among the recipients"},
		"of SSH":            {[]string{"ssh-ed25519 AAAA"}, "is no public key of age"},
		"an empty one":      {[]string{""}, "is no public key of age"},
		"two in one":        {[]string{a.Recipient().String() + "\n" + a.Recipient().String()}, "is no public key of age"},
		"very many of them": {strings.Split(strings.Repeat(pq+" ", 21)[:21*(len(pq)+1)-1], " "), "20 is the most"},
	} {
		recipients, err := ParseRecipients(test.keys)
		if test.says == "" && (err != nil || len(recipients) != len(test.keys)) || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), a.String()) {
			t.Errorf("%s: the message tells the secret: %v", name, err)
		}
	}
	many := make([]*age.X25519Identity, maxRecipients)
	for i := range many {
		many[i] = a
	}
	object, m := sealed(t, whole(3), many...)
	must(t, Extract(io.Discard, bytes.NewReader(object), m, []age.Identity{a}))
}

func TestNamesOfASnapshotAreRead(t *testing.T) {
	slot := SlotOf(taken, 5*time.Minute)
	if want := time.Date(2026, 3, 4, 5, 5, 0, 0, time.UTC); !slot.Equal(want) {
		t.Errorf("the slot is %v", slot)
	}
	for name, want := range map[string]Kind{
		ManifestName(slot): ManifestFile, VerificationName(slot): VerificationFile, NewObjectName(slot): ObjectFile,
		"20260304T050500Z.zst.age": Unknown, ".tmp-1": Unknown, "": Unknown, "20269304T050500Z.json": Unknown, ManifestName(slot) + "x": Unknown,
	} {
		if got, kind := ParseName(name); kind != want || want != Unknown && !got.Equal(slot) {
			t.Errorf("%s is %v of %v", name, kind, got)
		}
	}
}

// The snapshot cannot be compressed and its object is a file, so neither side of Seal and Extract could be in memory unseen.
func TestMemoryIsBounded(t *testing.T) {
	const size, bound = 96 << 20, 48 << 20
	database := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{}), size) }
	sum := sha256.New()
	_, err := io.Copy(sum, database())
	must(t, err)
	tenant := identity(t)
	object, err := os.Create(filepath.Join(t.TempDir(), "object"))
	must(t, err)
	defer func() { must(t, object.Close()) }()
	// The collector leaves little that is dead to be counted.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()

	sealing := &heapMeter{to: object}
	encrypted, of, err := Seal(sealing, io.MultiReader(database(), bytes.NewReader(sum.Sum(nil))), []age.Recipient{tenant.Recipient()})
	must(t, err)
	_, err = object.Seek(0, io.SeekStart)
	must(t, err)
	extracting := &heapMeter{to: io.Discard}
	must(t, Extract(extracting, object, manifest(encrypted, of), []age.Identity{tenant}))
	if encrypted.Bytes < size {
		t.Errorf("the object has %d bytes, so the snapshot was compressed", encrypted.Bytes)
	}
	if sealing.most > bound || extracting.most > bound {
		t.Errorf("objects had %d bytes of memory while sealing and %d while extracting", sealing.most, extracting.most)
	}
}

// heapMeter keeps the most bytes that objects on the heap had at a write.
type heapMeter struct {
	to   io.Writer
	most uint64
}

// Write implements io.Writer.
func (h *heapMeter) Write(p []byte) (int, error) {
	objects := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(objects)
	h.most = max(h.most, objects[0].Value.Uint64())
	return h.to.Write(p)
}
