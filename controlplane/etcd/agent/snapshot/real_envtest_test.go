//go:build envtest

package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/s3server"
)

// patience bounds each wait for etcd.
const patience = time.Minute

// Roles of this program: the child that restores, and one that uploads until it is killed.
const (
	roleRestores = "restores"
	roleUploads  = "uploads"
)

func TestMain(m *testing.M) {
	switch reexec.Role() {
	case roleRestores:
		if err := Main(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
	case roleUploads:
		uploadUntilKilled()
	default:
		os.Exit(m.Run())
	}
}

func program(ctx context.Context) *exec.Cmd { return reexec.Command(ctx, roleRestores) }

func etcdProgram() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd") }

// server is a running etcd with one member.
type server struct {
	t        testing.TB
	command  *exec.Cmd
	client   *clientv3.Client
	endpoint string
	ended    chan struct{}
	said     *output.Buffer
}

func startServer(t testing.TB, dir, peer string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, endpoint: "http://" + loopback.Free(t).String(), ended: make(chan struct{}), said: &output.Buffer{}}
	s.command = exec.Command(etcdProgram(), append([]string{"--name=one", "--data-dir=" + dir, "--listen-client-urls=" + s.endpoint, "--advertise-client-urls=" + s.endpoint,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=one=" + peer, "--listen-metrics-urls=", "--log-level=warn", "--unsafe-no-fsync"}, flags...)...)
	s.command.Stderr, s.command.Stdout = s.said, s.said
	must(t, s.command.Start())
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	t.Cleanup(s.stop)
	var err error
	s.client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.endpoint}, Logger: zap.NewNop(), DialTimeout: patience})
	must(t, err)
	t.Cleanup(func() { _ = s.client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.client.Get(ctx, "a"); err != nil {
		t.Fatalf("etcd does not answer: %v\n%s", err, s.said)
	}
	return s
}

func (s *server) stop() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	<-s.ended
}

func (s *server) put(from, to int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		_, err := s.client.Put(s.t.Context(), fmt.Sprintf("/registry/things/%05d", i), strings.Repeat(fmt.Sprintf("%d,", i), 100))
		must(s.t, err)
	}
}

// world is an etcd, a store, and the keys of its tenant.
type world struct {
	*server
	member *Member
	dir    string
	store  *store.Directory
	key    archive.Key
	tenant *age.X25519Identity
	person *age.X25519Identity
}

const uid = "0b1c2d3e-0000-0000-0000-000000000001"

func newWorld(t testing.TB, keys int, flags ...string) *world {
	t.Helper()
	w := &world{server: startServer(t, filepath.Join(t.TempDir(), "data"), "http://"+loopback.Free(t).String(), flags...), dir: t.TempDir()}
	w.put(0, keys)
	w.member = memberOf(t, w.server)
	var err error
	w.store, err = store.OpenDirectory(w.dir, store.FieldClaimName)
	must(t, err)
	t.Cleanup(func() { _ = w.store.Close() })
	w.key = keyOf(t, "a")
	w.tenant, err = age.GenerateX25519Identity()
	must(t, err)
	w.person, err = age.GenerateX25519Identity()
	must(t, err)
	return w
}

func memberOf(t testing.TB, s *server) *Member {
	t.Helper()
	m, err := Dial(s.endpoint, nil)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func keyOf(t testing.TB, letter string) archive.Key {
	t.Helper()
	k, err := archive.NewKey([]byte(strings.Repeat(letter, 32)))
	must(t, err)
	return k
}

func (w *world) options(slot time.Time) Options {
	return Options{
		Cluster: archive.Cluster{Namespace: "team", Name: "one", UID: uid}, Member: "one-etcd-data-0", EncryptionKeyID: "key1", Slot: slot,
		Recipients: []age.Recipient{w.tenant.Recipient(), w.person.Recipient()}, Key: w.key,
	}
}

func (w *world) reader() Reader {
	return Reader{Store: w.store, Key: w.key, Identities: []age.Identity{w.tenant}, Program: program}
}

func (w *world) take(slot time.Time) Entry {
	w.t.Helper()
	_, err := Take(w.t.Context(), w.member, w.store, w.options(slot))
	must(w.t, err)
	return w.find(slot)
}

func (w *world) find(slot time.Time) Entry {
	w.t.Helper()
	e, err := Find(w.t.Context(), w.store, w.key, slot)
	must(w.t, err)
	return e
}

func (w *world) target() Target {
	return Target{
		DataDir: filepath.Join(w.t.TempDir(), "data"), Name: "one", PeerURL: "http://" + loopback.Free(w.t).String(), Token: "new-1",
		Expected: archive.Expected{UID: uid, EtcdVersion: "3.6.8"},
	}
}

var slot = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// all are the keys of an etcd at a revision, without those that have a lease.
func all(t testing.TB, c *clientv3.Client, revision int64) map[string]*mvccpb.KeyValue {
	t.Helper()
	answer, err := c.Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithRev(revision))
	must(t, err)
	kvs := map[string]*mvccpb.KeyValue{}
	for _, kv := range answer.Kvs {
		if kv.Lease == 0 {
			kvs[string(kv.Key)] = kv
		}
	}
	return kvs
}

func TestASnapshotDuringWritesIsVerifiedAndRestored(t *testing.T) {
	w := newWorld(t, 3000)
	ctx := t.Context()
	lease, err := w.client.Grant(ctx, 3600)
	must(t, err)
	_, err = w.client.Put(ctx, "/registry/masterleases/1", "a", clientv3.WithLease(lease.ID))
	must(t, err)
	_, err = w.client.Delete(ctx, "/registry/things/0001", clientv3.WithPrefix())
	must(t, err)
	_, err = w.client.Compact(ctx, 2000)
	must(t, err)
	present, err := w.client.Get(ctx, "/")
	must(t, err)
	// Writes go on, and compactions: not beyond the snapshot, whose revision is read again below.
	writing, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; writing.Err() == nil; i++ {
			answer, err := w.client.Put(writing, fmt.Sprintf("/registry/written/%d", i%500), strings.Repeat("x", 1000))
			if err == nil && i%400 == 399 {
				_, _ = w.client.Compact(writing, min(answer.Header.Revision-2000, present.Header.Revision))
			}
		}
	})
	manifest, err := Take(ctx, w.member, w.store, w.options(slot))
	must(t, err)
	stop()
	writer.Wait()
	kept := all(t, w.client, manifest.Revision)
	source := w.take(slot.Add(time.Hour))
	highest := source.Manifest.Revision + 77

	for _, s := range []time.Time{slot, slot.Add(time.Hour)} {
		e := w.find(s)
		if e.Verified() {
			t.Errorf("%s is verified before anybody tried", s)
		}
		v, err := w.reader().Verify(ctx, e, etcdProgram(), t.TempDir())
		must(t, err)
		if e = w.find(s); !e.Verified() || *e.Verification != v || v.Revision < e.Manifest.Revision || v.EtcdVersion != e.Manifest.EtcdVersion || e.Manifest.StorageVersion != "3.6" {
			t.Errorf("it says %+v of %+v", e.Verification, e.Manifest)
		}
		// To verify again changes nothing.
		_, err = w.reader().Verify(ctx, e, etcdProgram(), t.TempDir())
		must(t, err)
	}

	target := w.target()
	target.Highest = highest
	restored, err := w.reader().Restore(ctx, w.find(slot.Add(time.Hour)), target)
	must(t, err)
	if restored.Snapshot < source.Manifest.Revision || restored.Revision != max(highest, restored.Snapshot)+bump {
		t.Errorf("it restored %+v of %+v", restored, source.Manifest)
	}
	again := startServer(t, target.DataDir, target.PeerURL, "--initial-cluster-state=existing")
	got, want := all(t, again.client, 0), all(t, w.client, restored.Snapshot)
	if len(want) < 2900 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d keys were restored of %d", len(got), len(want))
	}
	status, err := again.client.Status(ctx, again.endpoint)
	must(t, err)
	before, err := w.client.Status(ctx, w.endpoint)
	must(t, err)
	if status.Header.Revision < restored.Revision || status.Header.ClusterId == before.Header.ClusterId || status.Header.MemberId == before.Header.MemberId {
		t.Errorf("etcd goes on as %+v, and before it was %+v", status.Header, before.Header)
	}
	// An API server that watched the old one is told that its history is gone.
	watch := <-again.client.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(before.Header.Revision))
	if watch.CompactRevision != restored.Revision {
		t.Errorf("a watch is told %+v", watch)
	}

	// The first one has what the source had then, too: nothing is missing up to its revision.
	target = w.target()
	_, err = w.reader().Restore(ctx, w.find(slot), target)
	must(t, err)
	got = all(t, startServer(t, target.DataDir, target.PeerURL).client, 0)
	for key, kv := range kept {
		if now := got[key]; !strings.HasPrefix(key, "/registry/written/") && !reflect.DeepEqual(now, kv) || now == nil || now.ModRevision < kv.ModRevision {
			t.Fatalf("%s is %v, and was %v", key, now, kv)
		}
	}
}

// API servers keep their addresses by leases below /registry/masterleases/.
func TestLeasesOfASnapshotEndByThemselves(t *testing.T) {
	w := newWorld(t, 3)
	lease, err := w.client.Grant(t.Context(), 15)
	must(t, err)
	const key = "/registry/masterleases/192.0.2.1"
	_, err = w.client.Put(t.Context(), key, "a", clientv3.WithLease(lease.ID))
	must(t, err)
	taken := w.take(time.Now().UTC().Truncate(time.Hour))
	_, err = w.reader().Verify(t.Context(), taken, etcdProgram(), t.TempDir())
	must(t, err)
	target := w.target()
	_, err = w.reader().Restore(t.Context(), w.find(taken.Slot), target)
	must(t, err)
	restored := startServer(t, target.DataDir, target.PeerURL, "--initial-cluster-state=existing")
	answer, err := restored.client.Get(t.Context(), key)
	must(t, err)
	if answer.Count != 1 {
		t.Fatal("the snapshot does not have the key")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for change := range restored.client.Watch(ctx, key, clientv3.WithRev(answer.Header.Revision+1)) {
		for _, event := range change.Events {
			if event.Type == clientv3.EventTypeDelete {
				return
			}
		}
	}
	t.Error("the key is there for ever")
}

// A full etcd takes no writes, and its snapshot has the alarm. A restore waits for an etcd that is well, and nobody ends alarms meanwhile. The
// file is as large as it was: with the same quota the new etcd would raise an alarm of its own.
func TestWhatIsRestoredFromAFullEtcdTakesWrites(t *testing.T) {
	const quota = 4 << 20
	w := newWorld(t, 10, fmt.Sprintf("--quota-backend-bytes=%d", quota))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var full error
	for i := 0; full == nil; i++ {
		_, full = w.client.Put(ctx, fmt.Sprintf("/registry/large/%d", i), strings.Repeat("x", quota/16))
	}
	if !errors.Is(full, rpctypes.ErrNoSpace) {
		t.Fatalf("etcd does not become full: %v", full)
	}
	w.take(slot)
	_, err := w.reader().Verify(ctx, w.find(slot), etcdProgram(), t.TempDir())
	must(t, err)
	target := w.target()
	_, err = w.reader().Restore(ctx, w.find(slot), target)
	must(t, err)

	restored := startServer(t, target.DataDir, target.PeerURL)
	alarms, err := restored.client.AlarmList(ctx)
	if err != nil || len(alarms.Alarms) != 0 {
		t.Errorf("what is restored has the alarms %v: %v", alarms, err)
	}
	if _, err := restored.client.Put(ctx, "/registry/more", "x"); err != nil {
		t.Errorf("what is restored takes no writes: %v", err)
	}
}

// The same through an S3 server: one that goes up in parts, of which most cannot be compressed.
func TestASnapshotGoesThroughABucket(t *testing.T) {
	w := newWorld(t, 10)
	random := make([]byte, 1<<20)
	for i := range 20 {
		_, err := rand.Read(random)
		must(t, err)
		_, err = w.client.Put(t.Context(), fmt.Sprintf("/registry/large/%d", i), string(random))
		must(t, err)
	}
	server := s3server.Start(t, "", "")
	credentials := t.TempDir()
	must(t, os.WriteFile(filepath.Join(credentials, "accessKeyID"), []byte(s3server.AccessKey), 0o600))
	must(t, os.WriteFile(filepath.Join(credentials, "secretAccessKey"), []byte(s3server.SecretKey), 0o600))
	bucket, err := store.OpenS3(store.S3Config{Endpoint: server.Endpoint, Bucket: s3server.Bucket, Prefix: "team/one", Credentials: credentials})
	must(t, err)
	_, err = Take(t.Context(), w.member, bucket, w.options(slot))
	must(t, err)
	if _, err := Take(t.Context(), w.member, bucket, w.options(slot)); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second one says %v", err)
	}
	r := w.reader()
	r.Store = bucket
	find := func() Entry {
		list, err := List(t.Context(), bucket, w.key)
		if err != nil || len(list) != 1 || list[0].Err != nil || list[0].Manifest.Encrypted.Bytes < 20<<20 {
			t.Fatalf("there are %+v: %v", list, err)
		}
		return list[0]
	}
	_, err = r.Verify(t.Context(), find(), etcdProgram(), t.TempDir())
	must(t, err)
	target := w.target()
	_, err = r.Restore(t.Context(), find(), target)
	must(t, err)
	if got, want := all(t, startServer(t, target.DataDir, target.PeerURL).client, 0), all(t, w.client, 0); len(want) != 30 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d keys were restored of %d", len(got), len(want))
	}
}

// Without room nothing is begun.
func TestTooLittleRoomIsToldBeforeAnythingIsRead(t *testing.T) {
	m := archive.Manifest{Slot: slot, Plain: archive.Sum{Bytes: 1 << 60}}
	if err := room(t.TempDir(), needed(m), "to restore it"); err == nil || !strings.Contains(err.Error(), "make room for") {
		t.Errorf("it says %v", err)
	}
}

// What a person does with a key, age, zstd and etcdutl.
func TestAPersonReadsASnapshotWithoutThisProgram(t *testing.T) {
	w := newWorld(t, 100)
	e := w.take(slot)
	object, err := os.Open(filepath.Join(w.dir, e.Manifest.Object))
	must(t, err)
	defer object.Close()
	var plain bytes.Buffer
	must(t, archive.Extract(&plain, object, e.Manifest, []age.Identity{w.person}))
	_, newest, err := revisions(written(t, plain.Bytes()))
	if err != nil || newest < 101 {
		t.Errorf("it is of revision %d: %v", newest, err)
	}
}

func written(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestASlotHasOneSnapshot(t *testing.T) {
	w := newWorld(t, 10)
	var group sync.WaitGroup
	results := make(chan error, 4)
	for range 4 {
		group.Go(func() {
			_, err := Take(t.Context(), w.member, w.store, w.options(slot))
			results <- err
		})
	}
	group.Wait()
	close(results)
	took := 0
	for err := range results {
		if err == nil {
			took++
		} else if !errors.Is(err, store.ErrExists) {
			t.Error(err)
		}
	}
	objects, err := w.store.List(t.Context())
	if took != 1 || err != nil || len(objects) != 2 {
		t.Errorf("%d took it, and there are %v: %v", took, objects, err)
	}
	_, err = w.reader().Verify(t.Context(), w.find(slot), etcdProgram(), t.TempDir())
	must(t, err)
}

func TestBadSnapshotsAreRefusedAndNothingIsTouched(t *testing.T) {
	w := newWorld(t, 500)
	w.take(slot)
	_, err := w.reader().Verify(t.Context(), w.find(slot), etcdProgram(), t.TempDir())
	must(t, err)
	w.put(500, 520)
	other := w.take(slot.Add(time.Hour))
	good := w.find(slot)
	manifest := archive.ManifestName(slot)
	stranger, err := age.GenerateX25519Identity()
	must(t, err)
	change := func(name string, how func([]byte) []byte) {
		path := filepath.Join(w.dir, name)
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, how(data), 0o600))
	}
	for name, test := range map[string]struct {
		damage func()
		reader func(*Reader)
		target func(*Target)
		want   archive.Reason
		err    error
		// onlyRestore says that it may be verified.
		onlyRestore bool
	}{
		"the object is cut off": {damage: func() { change(good.Manifest.Object, func(b []byte) []byte { return b[:len(b)-100] }) }, want: archive.Truncated},
		"the object is gone":    {damage: func() { must(t, os.Remove(filepath.Join(w.dir, good.Manifest.Object))) }, want: archive.Truncated},
		"a byte of the object":  {damage: func() { change(good.Manifest.Object, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) }, want: archive.Tampered},
		"the object of another one": {damage: func() {
			// Of the same size: else it would be found by that.
			change(good.Manifest.Object, func(b []byte) []byte {
				return append(file(t, w.dir, other.Manifest.Object), b...)[:len(b)]
			})
		}, want: archive.Tampered},
		"the manifest is cut off": {damage: func() { change(manifest, func(b []byte) []byte { return b[:len(b)/2] }) }, want: archive.Truncated},
		"another revision": {damage: func() {
			change(manifest, func(b []byte) []byte { return bytes.Replace(b, []byte(`"revision":`), []byte(`"revision":1`), 1) })
		}, want: archive.Tampered},
		"the manifest of another": {damage: func() {
			change(manifest, func([]byte) []byte { return file(t, w.dir, archive.ManifestName(other.Slot)) })
		}, want: archive.Tampered},
		"of another tenant": {reader: func(r *Reader) { r.Key = keyOf(t, "b") }, want: archive.Foreign},
		"of another UID":    {target: func(x *Target) { x.Expected.UID = "another" }, want: archive.Foreign, onlyRestore: true},
		"for a newer etcd":  {target: func(x *Target) { x.Expected.EtcdVersion = "3.5.21" }, want: archive.TooNew, onlyRestore: true},
		"a format of the future": {damage: func() {
			change(manifest, func(b []byte) []byte { return bytes.Replace(b, []byte(`"format":1`), []byte(`"format":2`), 1) })
		}, want: archive.TooNew},
		"no key opens it": {reader: func(r *Reader) { r.Identities = []age.Identity{stranger} }, want: archive.KeyMissing},
		"not verified":    {damage: func() { must(t, os.Remove(filepath.Join(w.dir, archive.VerificationName(slot)))) }, err: ErrNotVerified, onlyRestore: true},
		"verified, says another": {damage: func() {
			change(archive.VerificationName(slot), func(b []byte) []byte { return bytes.Replace(b, []byte(`"revision":`), []byte(`"revision":1`), 1) })
		}, err: ErrNotVerified, onlyRestore: true},
		"there are data": {target: func(x *Target) { must(t, os.MkdirAll(filepath.Join(x.DataDir, "member", "wal"), 0o700)) }, err: ErrHasData, onlyRestore: true},
		"another file is there": {target: func(x *Target) {
			must(t, os.MkdirAll(x.DataDir, 0o700))
			must(t, os.WriteFile(filepath.Join(x.DataDir, "x"), nil, 0o600))
		}, err: ErrHasData, onlyRestore: true},
	} {
		t.Run(name, func(t *testing.T) {
			kept := map[string][]byte{}
			objects, err := w.store.List(t.Context())
			must(t, err)
			for _, o := range objects {
				kept[o.Name] = file(t, w.dir, o.Name)
			}
			defer func() {
				for name, data := range kept {
					must(t, os.WriteFile(filepath.Join(w.dir, name), data, 0o600))
				}
			}()
			r, target := w.reader(), w.target()
			if test.damage != nil {
				test.damage()
			}
			if test.reader != nil {
				test.reader(&r)
			}
			if test.target != nil {
				test.target(&target)
			}
			e, err := Find(t.Context(), r.Store, r.Key, slot)
			must(t, err)
			before := tree(t, filepath.Dir(target.DataDir))
			_, err = r.Restore(t.Context(), e, target)
			if archive.ReasonOf(err) != test.want || test.err != nil && !errors.Is(err, test.err) || err == nil {
				t.Errorf("a restore says %v", err)
			}
			if after := tree(t, filepath.Dir(target.DataDir)); after != before && after != before+"data\n" {
				t.Errorf("there was %q, and now there is %q", before, after)
			}
			if test.onlyRestore {
				return
			}
			scratch := t.TempDir()
			if _, err = r.Verify(t.Context(), e, etcdProgram(), scratch); archive.ReasonOf(err) != test.want || err == nil {
				t.Errorf("a verification says %v", err)
			}
			if left := tree(t, scratch); left != "" {
				t.Errorf("a verification leaves %q", left)
			}
		})
	}
}

func file(t testing.TB, folder, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	must(t, err)
	return data
}

// tree is what is in a folder.
func tree(t testing.TB, folder string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if path != folder {
			b.WriteString(strings.TrimPrefix(path, folder+"/") + "\n")
		}
		return err
	}))
	return b.String()
}

// A member whose history is another one, or whose database is damaged, gives snapshots with whole sums: only a trial tells.
func TestATrialFindsWhatNoSumTells(t *testing.T) {
	w := newWorld(t, 300)
	good := w.take(slot)
	var plain bytes.Buffer
	must(t, archive.Extract(&plain, bytes.NewReader(file(t, w.dir, good.Manifest.Object)), good.Manifest, []age.Identity{w.tenant}))
	for name, test := range map[string]struct {
		change   func(data []byte)
		manifest func(*archive.Manifest)
		says     string
	}{
		"a value":             {change: func(data []byte) { at := bytes.LastIndex(data, []byte("299,299,")); data[at] = '3' }, says: "has hash"},
		"another hash":        {manifest: func(m *archive.Manifest) { m.HashKV++ }, says: "has hash"},
		"another compaction":  {manifest: func(m *archive.Manifest) { m.CompactRevision = 5 }, says: "has hash"},
		"a later revision":    {manifest: func(m *archive.Manifest) { m.Revision += 1000 }, says: "has revision"},
		"all pages are zeros": {change: func(data []byte) { clear(data[8192:]) }, says: "damaged"},
		"no meta page":        {change: func(data []byte) { clear(data[:8192]) }, says: "damaged"},
		"pages of other kinds": {change: func(data []byte) {
			for at := 8192; at < len(data); at += 4096 {
				data[at+8] ^= 0x10
			}
		}, says: ""},
	} {
		t.Run(name, func(t *testing.T) {
			data := bytes.Clone(plain.Bytes())
			if test.change != nil {
				test.change(data[:len(data)-32])
			}
			resum(data)
			m := good.Manifest
			m.Slot = slot.Add(24 * time.Hour)
			m.Object = archive.NewObjectName(m.Slot)
			var err error
			m.Encrypted, m.Plain, err = upload(t.Context(), w.store, m.Object, bytes.NewReader(data), w.options(m.Slot).Recipients)
			must(t, err)
			if test.manifest != nil {
				test.manifest(&m)
			}
			signed, err := w.key.Sign(m)
			must(t, err)
			must(t, publish(t.Context(), w.store, archive.ManifestName(m.Slot), signed))
			defer func() {
				must(t, w.store.Delete(t.Context(), archive.ManifestName(m.Slot)))
				must(t, w.store.Delete(t.Context(), m.Object))
			}()
			scratch := t.TempDir()
			_, err = w.reader().Verify(t.Context(), w.find(m.Slot), etcdProgram(), scratch)
			if archive.ReasonOf(err) != archive.HashDiffers || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
			t.Log(err)
			if left := tree(t, scratch); left != "" || w.find(m.Slot).Verified() {
				t.Errorf("it leaves %q", left)
			}
		})
	}
}

// resum puts the right hash at the end of a snapshot.
func resum(data []byte) {
	sum := sha256.Sum256(data[:len(data)-sha256.Size])
	copy(data[len(data)-sha256.Size:], sum[:])
}

// uploadUntilKilled uploads what comes in, which never ends.
func uploadUntilKilled() {
	s, err := store.OpenDirectory(os.Getenv("STORE"), store.FieldPerMember)
	if err == nil {
		err = s.Put(context.Background(), archive.NewObjectName(slot), io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), os.Stdin))
	}
	panic(err)
}

func TestAKillDuringAnUploadLeavesNoSnapshot(t *testing.T) {
	w := newWorld(t, 10)
	upload := reexec.Command(t.Context(), roleUploads)
	upload.Env = append(upload.Environ(), "STORE="+w.dir)
	never, err := upload.StdinPipe()
	must(t, err)
	defer never.Close()
	must(t, upload.Start())
	deadline := time.After(patience)
	for tree(t, w.dir) == "" {
		select {
		case <-deadline:
			t.Fatal("nothing is written")
		case <-time.After(5 * time.Millisecond):
		}
	}
	must(t, upload.Process.Kill())
	_ = upload.Wait()
	if entries, err := List(t.Context(), w.store, w.key); err != nil || len(entries) != 0 {
		t.Errorf("there are %v: %v", entries, err)
	}
	// Neither does one between the object and its manifest, and both are no obstacle for the same slot.
	must(t, os.WriteFile(filepath.Join(w.dir, archive.NewObjectName(slot)), []byte("half"), 0o600))
	if entries, err := List(t.Context(), w.store, w.key); err != nil || len(entries) != 0 {
		t.Errorf("there are %v: %v", entries, err)
	}
	e := w.take(slot)
	_, err = w.reader().Verify(t.Context(), e, etcdProgram(), t.TempDir())
	must(t, err)
	// What was left goes after a day, and what counts stays.
	old := time.Now().Add(-48 * time.Hour)
	for name := range strings.Lines(tree(t, w.dir)) {
		must(t, os.Chtimes(filepath.Join(w.dir, strings.TrimSpace(name)), old, old))
	}
	if gone, err := Prune(t.Context(), w.store, w.key, "", Keep{Last: 2}, time.Now()); err != nil || len(gone) != 0 {
		t.Errorf("gone are %v: %v", gone, err)
	}
	objects, err := w.store.List(t.Context())
	if err != nil || len(objects) != 3 || !w.find(slot).Verified() {
		t.Errorf("there are %v: %v", objects, err)
	}
}

func TestPruneDeletesWhatExpired(t *testing.T) {
	w := newWorld(t, 10)
	for i := range 4 {
		e := w.take(slot.Add(time.Duration(i) * time.Hour))
		if i != 3 {
			must(t, w.reader().record(t.Context(), e, archive.Verification{Manifest: archive.HashOf(e.File)}))
		}
	}
	gone, err := Prune(t.Context(), w.store, w.key, "", Keep{Last: 2}, time.Now())
	if err != nil || len(gone) != 1 || !gone[0].Slot.Equal(slot) {
		t.Errorf("gone are %v: %v", gone, err)
	}
	left, err := List(t.Context(), w.store, w.key)
	if err != nil || len(left) != 3 || left[0].Verified() || !left[1].Verified() || left[2].Err != nil {
		t.Errorf("left are %v: %v", left, err)
	}
	if n := strings.Count(tree(t, w.dir), "\n"); n != 8 {
		t.Errorf("there are %d files", n)
	}
}
