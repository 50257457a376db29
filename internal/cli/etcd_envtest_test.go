//go:build envtest

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/s3server"
)

// controlPlane makes a KOKControlPlane of a Cluster, which is backed up.
func (s *site) controlPlane(name, cluster string) *controlplanev1.KOKControlPlane {
	s.t.Helper()
	made := &controlplanev1.KOKControlPlane{ObjectMeta: s.named(name)}
	made.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": cluster}
	made.Spec.Version = "v1.36.3"
	made.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{
		Recipients: []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
		Store:      controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"},
	}
	s.create(made)
	return made
}

// snapshots are the KOKEtcdSnapshots of the namespace.
func (s *site) snapshots() []controlplanev1.KOKEtcdSnapshot {
	s.t.Helper()
	all := &controlplanev1.KOKEtcdSnapshotList{}
	if err := environment.Client.List(s.t.Context(), all, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	return all.Items
}

// condition sets one of the only snapshot.
func (s *site) condition(name string, status metav1.ConditionStatus, reason, message string) {
	s.t.Helper()
	made := s.snapshots()[0]
	made.Status.Slot, made.Status.Revision, made.Status.TakenAt = "20260304T050000Z", 7, metav1.Now()
	meta.SetStatusCondition(&made.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: reason, Message: message})
	s.status(&made)
}

// until waits for something.
func (s *site) until(reached func() bool) {
	s.t.Helper()
	must[any](s.t)(nil, wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return reached(), nil }))
}

// lines are what a command writes while others read them.
type lines struct {
	lock sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(p)
}

// String is all of them.
func (l *lines) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

func TestSnapshotsAreTakenAndListed(t *testing.T) {
	s := newSite(t)
	s.expect(2, []string{"there is no KOKControlPlane " + s.namespace + "/blue"}, "etcd", "snapshot", "blue")
	s.expect(2, []string{"there is no KOKControlPlane " + s.namespace + "/blue, and no snapshot of it"}, "etcd", "list", "blue")
	blue := s.controlPlane("blue", "blue")
	s.expect(0, []string{"has no snapshots yet; kok etcd snapshot blue takes one"}, "etcd", "list", "blue")

	// The controller's part: it says what is in the way, and then that the snapshot is verified.
	var out, progress lines
	ended := make(chan int, 1)
	go func() {
		arguments := []string{"kok", "etcd", "snapshot", "blue", "--timeout", "1m", "--kubeconfig", kubeconfig, "--namespace", s.namespace}
		ended <- Run(t.Context(), arguments, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &progress})
	}()
	s.until(func() bool { return len(s.snapshots()) == 1 })
	s.condition("Stored", metav1.ConditionFalse, "StoreProblem", "the claim is full")
	s.until(func() bool {
		return strings.Contains(progress.String(), "Waiting: Stored: StoreProblem: the claim is full")
	})
	s.condition("Stored", metav1.ConditionTrue, "Stored", "")
	s.condition("Verified", metav1.ConditionTrue, "Verified", "")
	if status := <-ended; status != 0 {
		t.Fatalf("it ended with %d: %s", status, progress.String())
	}
	made := s.snapshots()
	if len(made) != 1 || made[0].Spec.ControlPlaneName != "blue" || strings.TrimSpace(out.String()) != made[0].Name {
		t.Fatalf("it printed %q, and there is %v", out.String(), made)
	}
	s.expect(1, []string{"is not verified after 1s: the controller and a member of etcd take it"}, "etcd", "snapshot", "blue", "--timeout", "1s")
	s.expect(0, []string{"20260304T050000Z", "yes", "unknown"}, "etcd", "list", "blue")
	var rows []struct {
		Name, Slot, Verified string
		Revision             int64
	}
	if err := json.Unmarshal([]byte(s.expect(0, nil, "etcd", "list", "blue", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[1].Name != made[0].Name || rows[1].Slot != "20260304T050000Z" || rows[1].Verified != "yes" || rows[1].Revision != 7 || rows[0].Verified != "unknown" {
		t.Errorf("as data they are %+v", rows)
	}
	s.expect(2, []string{"want json"}, "etcd", "list", "blue", "-o", "xml")

	blue.Spec.Etcd.Backup = nil
	if err := environment.Client.Update(t.Context(), blue); err != nil {
		t.Fatal(err)
	}
	s.expect(2, []string{"has no spec.etcd.backup"}, "etcd", "snapshot", "blue")
}

func TestEventsBeginAnewByOneCommand(t *testing.T) {
	s := newSite(t)
	red := s.controlPlane("red", "red")
	found := func(arguments ...string) []string {
		return append([]string{"etcd", "restore-in-place", "red", "--events"}, arguments...)
	}
	s.expect(2, []string{"one of these"}, found("taken")...)
	s.expect(2, []string{"one of these"}, found("--survivor", "red-etcd-data-0")...)
	s.expect(2, []string{"[events given-up]"}, found("--given-up", "red-etcd-events-0")...)
	s.expect(2, []string{"standard input is no terminal"}, found()...)
	s.expect(1, []string{"All events are lost, and nothing else", "does not work after 1s: the controller has yet to begin"}, found("--yes", "--timeout", "1s")...)
	first := s.asked("red").Events.FoundAnewAt
	s.expect(0, []string{"It is asked for"}, found("--yes", "--timeout", "0")...)
	again := s.asked("red").Events.FoundAnewAt
	if first.IsZero() || !first.Before(&again) {
		t.Errorf("it was asked for at %s, then at %s", first, again)
	}

	waits := func(status controlplanev1.EtcdClusterStatus) string {
		s.has("red", red)
		red.Status.Etcd = []controlplanev1.EtcdClusterStatus{status}
		s.status(red)
		_, _, says := s.kok(found("--yes", "--timeout", "1s")...)
		return says
	}
	// The command asks again each time, and at this one nothing was founded yet.
	if says := waits(controlplanev1.EtcdClusterStatus{Name: "events", Bootstrapped: ptr.To(true), RestoredAt: again}); !strings.Contains(says, "the controller has yet to begin") {
		t.Error(says)
	}

	green := &controlplanev1.KOKControlPlane{ObjectMeta: s.named("green")}
	green.Spec.Version, green.Spec.Etcd.Events.Mode = "v1.36.3", controlplanev1.EtcdEventsInData
	s.create(green)
	s.expect(2, []string{"spec.etcd.events.mode is InData"}, "etcd", "restore-in-place", "green", "--events", "--yes")
}

func TestEtcdIsRestoredInPlace(t *testing.T) {
	s := newSite(t)
	blue := s.controlPlane("blue", "blue")
	taken := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: s.named("taken")}
	taken.Spec.ControlPlaneName = "blue"
	s.create(taken)
	for says, arguments := range map[string][]string{
		"name what etcd begins with":    {"blue"},
		"by --survivor":                 {"blue", "taken", "--survivor", "blue-etcd-data-0"},
		"there is no KOKControlPlane":   {"red", "taken"},
		"there is no KOKEtcdSnapshot":   {"blue", "missing"},
		"cannot be restored":            {"blue", "taken"},
		"standard input is no terminal": {"blue", "--survivor", "blue-etcd-data-0"},
	} {
		s.expect(2, []string{says}, append([]string{"etcd", "restore-in-place", "--timeout", "0"}, arguments...)...)
	}
	s.condition("Verified", metav1.ConditionTrue, "Verified", "")
	blue.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: ptr.To(true)}}
	s.status(blue)
	s.expect(0, []string{"What was written after the snapshot is lost: it has all up to revision 7", "Given up: blue-etcd-data-1", "The restore is asked for"},
		"etcd", "restore-in-place", "blue", "taken", "--given-up", "blue-etcd-data-1", "--yes", "--timeout", "0")
	if asked := s.asked("blue"); asked.Restore.Snapshot != "taken" || asked.Restore.RequestedAt.IsZero() || !slices.Equal(asked.GivenUp, []string{"blue-etcd-data-1"}) {
		t.Errorf("it asks for %+v", asked)
	}

	// The controller's part: it refuses, and the request is taken back.
	var progress lines
	restore := func(arguments ...string) chan int {
		ended := make(chan int, 1)
		all := append([]string{"kok", "etcd", "restore-in-place", "blue", "--yes", "--timeout", "1m", "--kubeconfig", kubeconfig, "--namespace", s.namespace}, arguments...)
		go func() {
			ended <- Run(t.Context(), all, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &lines{}, ErrOut: &progress})
		}()
		return ended
	}
	answer := func(survivor string, change func(*controlplanev1.KOKControlPlane)) {
		s.until(func() bool {
			asked := s.asked("blue")
			return asked.Restore != nil && asked.Restore.Survivor == survivor
		})
		s.has("blue", blue)
		change(blue)
		s.status(blue)
	}
	ended := restore("--survivor", "blue-etcd-data-0")
	answer("blue-etcd-data-0", func(c *controlplanev1.KOKControlPlane) {
		conditions.Set(c, metav1.Condition{Type: conditionsv1.ReconciledCondition, Status: metav1.ConditionFalse, Reason: "Waiting", Message: "spec.etcd.restore: a quorum can return"})
	})
	if status := <-ended; status != 1 || !strings.Contains(progress.String(), "goes on as it was, and nothing is left of the request: spec.etcd.restore: a quorum can return") {
		t.Errorf("it ended with %d: %s", status, progress.String())
	}
	if asked := s.asked("blue"); asked.Restore != nil || asked.GivenUp != nil {
		t.Errorf("it still asks for %+v", asked)
	}

	// It restores, and tells how far it is.
	ended = restore("--survivor", "blue-etcd-data-2")
	answer("blue-etcd-data-2", func(c *controlplanev1.KOKControlPlane) {
		c.Status.Conditions = nil
		conditions.Set(c, metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Reason: conditionsv1.RestoringReason, Message: "pods have yet to stop"})
	})
	s.until(func() bool { return strings.Contains(progress.String(), "Waiting: pods have yet to stop") })
	answer("blue-etcd-data-2", func(c *controlplanev1.KOKControlPlane) {
		c.Status.Etcd[0].RestoredAt, c.Status.Etcd[0].ClusterID = c.Spec.Etcd.Restore.RequestedAt, "00000000000f0e3e"
		conditions.Set(c, metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionFalse, Reason: conditionsv1.NotRecoveringReason})
		conditions.Set(c, metav1.Condition{Type: conditionsv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Available"})
	})
	if status := <-ended; status != 0 || !strings.Contains(progress.String(), "works again, with etcd cluster 00000000000f0e3e") {
		t.Errorf("it ended with %d: %s", status, progress.String())
	}
	s.expect(1, []string{"does not work again after 1s, and the restore goes on"}, "etcd", "restore-in-place", "blue", "taken", "--yes", "--timeout", "1s")

	// It asks for a later time than that of the last one, and is not taken back where the last
	// one is under way, for the control plane has stopped.
	s.has("blue", blue)
	before := blue.Spec.Etcd.Restore.RequestedAt
	conditions.Set(blue, metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Reason: conditionsv1.RestoringReason})
	s.status(blue)
	ended = restore("--survivor", "blue-etcd-data-0")
	answer("blue-etcd-data-0", func(c *controlplanev1.KOKControlPlane) {
		conditions.Set(c, metav1.Condition{Type: conditionsv1.ReconciledCondition, Status: metav1.ConditionFalse, Reason: "Waiting", Message: "spec.etcd.restore: survivor has no data"})
	})
	if status := <-ended; status != 1 || !strings.Contains(progress.String(), "ask for one that can, for the control plane has stopped: spec.etcd.restore: survivor has no data") {
		t.Errorf("it ended with %d: %s", status, progress.String())
	}
	if asked := s.asked("blue"); asked.Restore == nil || !asked.Restore.RequestedAt.After(before.Time) {
		t.Errorf("it asks for %+v", asked)
	}
}

// asked is what the spec of the control plane blue says of its etcds.
func (s *site) asked(controlPlane string) controlplanev1.EtcdSpec {
	s.t.Helper()
	found := &controlplanev1.KOKControlPlane{}
	if !s.has(controlPlane, found) {
		s.t.Fatal("there is no KOKControlPlane " + controlPlane)
	}
	return found.Spec.Etcd
}

// former is what a lost cluster left in a bucket.
type former struct {
	t      *testing.T
	store  store.Store
	keys   []byte
	key    archive.Key
	person *age.X25519Identity
	// folder has the objects, identity is the file of the person's secret key, and flags name the store.
	folder, identity string
	flags            []string
}

// secretOf makes a Secret.
func (s *site) secretOf(name string, data map[string][]byte) {
	s.t.Helper()
	s.create(&corev1.Secret{ObjectMeta: s.named(name), Data: data})
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// ensureKeys has a Cluster's keys as its control plane would.
func (s *site) ensureKeys(name string) *pki.KeyMaterial {
	s.t.Helper()
	reach := secrets.Access{Cached: environment.Client, Live: environment.Client, Writer: environment.Client}
	keeper := &pki.Store{Management: reach, Host: reach}
	return must[*pki.KeyMaterial](s.t)(keeper.Ensure(s.t.Context(), pki.Request{
		Cluster: client.ObjectKey{Namespace: s.namespace, Name: name}, UsedBy: func(context.Context) (string, error) { return "", nil },
	}))
}

// lose makes a cluster with keys in a namespace of its own, and leaves its bucket to this one.
func (s *site) lose(name string) *former {
	s.t.Helper()
	t := s.t
	material := newSite(t).ensureKeys(name)
	f := &former{t: t, keys: must[[]byte](t)(pki.EncodeKeys(material)), person: must[*age.X25519Identity](t)(age.GenerateX25519Identity())}
	signing, _, _, err := pki.SnapshotKeys(material.EncryptionKey)
	if err != nil {
		t.Fatal(err)
	}
	f.key = must[archive.Key](t)(archive.NewKey(signing))

	server := s3server.Start(t, "", "")
	credentials := map[string][]byte{"accessKeyID": []byte(s3server.AccessKey), "secretAccessKey": []byte(s3server.SecretKey)}
	s.secretOf("s3", credentials)
	folder := t.TempDir()
	for name, value := range credentials {
		must[any](t)(nil, os.WriteFile(filepath.Join(folder, name), value, 0o600))
	}
	f.store = must[*store.S3](t)(store.OpenS3(store.S3Config{Endpoint: server.Endpoint, Bucket: s3server.Bucket, Prefix: "former/" + name, Credentials: folder}))
	f.put(must[string](t)(archive.KeysName("0000000000")), must[[]byte](t)(pki.SealKeys(f.keys, []string{f.person.Recipient().String()})))
	f.folder = filepath.Join(server.Folder, s3server.Bucket, "former", name)
	f.identity = f.identityFile(f.person)
	f.flags = []string{"--s3-endpoint", server.Endpoint, "--s3-bucket", s3server.Bucket, "--s3-prefix", "former/" + name, "--s3-credentials-secret", "s3"}
	return f
}

func (f *former) put(name string, content []byte) {
	f.t.Helper()
	must[any](f.t)(nil, f.store.Put(f.t.Context(), name, bytes.NewReader(content)))
}

// take stores a snapshot of a slot, and returns the name of its object.
func (f *former) take(slot string, key archive.Key, verified bool) string {
	f.t.Helper()
	at := must[time.Time](f.t)(archive.ParseSlot(slot))
	object := []byte("a snapshot of " + slot)
	sum := archive.Sum{Bytes: int64(len(object)), SHA256: archive.HashOf(object)}
	m := archive.Manifest{
		Cluster: archive.Cluster{Namespace: "former", Name: "blue", UID: "uid-1"}, Member: "blue-etcd-data-0", Slot: at, Taken: at.Add(time.Second),
		EtcdVersion: "3.6.16", StorageVersion: "3.6", Revision: 4711, CompactRevision: -1, Object: archive.NewObjectName(at),
		Encrypted: sum, Plain: archive.Sum{Bytes: 1 << 20, SHA256: sum.SHA256},
	}
	manifest := must[[]byte](f.t)(key.Sign(m))
	f.put(m.Object, object)
	f.put(archive.ManifestName(at), manifest)
	if verified {
		v := archive.Verification{Manifest: archive.HashOf(manifest), Verified: at.Add(time.Minute), EtcdVersion: "3.6.16", Revision: 4711}
		f.put(archive.VerificationName(at), must[[]byte](f.t)(key.SignVerification(v)))
	}
	return m.Object
}

// identityFile is the file of a person's secret key.
func (f *former) identityFile(person *age.X25519Identity) string {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), "key.txt")
	must[any](f.t)(nil, os.WriteFile(file, []byte("# public key: "+person.Recipient().String()+"\n"+person.String()+"\n"), 0o600))
	return file
}

// restore is the command line for a new Cluster.
func (f *former) restore(cluster string, further ...string) []string {
	return slices.Concat([]string{"etcd", "restore", cluster, "--identity-file", f.identity}, f.flags, further)
}

func TestANewClusterIsPreparedForASnapshot(t *testing.T) {
	s := newSite(t)
	f := s.lose("blue")
	f.take("20260304T040000Z", f.key, true)
	f.take("20260304T050000Z", f.key, true)
	f.take("20260304T060000Z", f.key, false)
	f.take("20990304T060000Z", f.key, true)
	secrets := func() []string {
		all := &corev1.SecretList{}
		must[any](t)(nil, environment.Client.List(t.Context(), all, client.InNamespace(s.namespace)))
		var names []string
		for _, secret := range all.Items {
			names = append(names, secret.Name)
		}
		return names
	}

	// The store is looked into, and nothing is written.
	out := s.expect(0, []string{"Choose one by --slot"}, f.restore("blue", "--dry-run")...)
	if !strings.Contains(out, "20260304T060000Z") || strings.Index(out, "20260304T060000Z") > strings.Index(out, "20260304T040000Z") {
		t.Errorf("it shows\n%s", out)
	}
	s.expect(0, []string{"Secret " + s.namespace + "/blue-encryption would be created", "Nothing was written"}, f.restore("blue", "--dry-run", "--latest")...)
	if there := secrets(); len(there) != 1 || len(s.snapshots()) != 0 {
		t.Fatalf("a dry run wrote %v", there)
	}

	// The newest that is verified is taken.
	out = s.expect(0, []string{
		"The snapshot 20990304T060000Z is left out: it is in the future",
		"The snapshot 20260304T060000Z is left out: it is not verified", "Secret " + s.namespace + "/blue-ca is created",
		"The snapshot 20260304T050000Z of former/blue, taken 2026-03-04T05:00:01Z at revision 4711", "snapshot: blue-restore-20260304t050000z",
		"needs another spec.etcd.backup.store.s3.prefix than former/blue",
	}, f.restore("blue", "--latest")...)
	if strings.Contains(out, "PRIVATE") {
		t.Error("a key is told")
	}
	want := []string{"blue-ca", "blue-encryption", "blue-etcd", "blue-etcd-events", "blue-proxy", "blue-sa", "s3"}
	if there := secrets(); !slices.Equal(there, want) {
		t.Fatalf("there are %v, want %v", there, want)
	}
	ca := &corev1.Secret{}
	if !s.has("blue-ca", ca) || ca.Labels["cluster.x-k8s.io/cluster-name"] != "blue" || ca.Type != "cluster.x-k8s.io/secret" {
		t.Errorf("the Secret of the CA is %v of type %s", ca.ObjectMeta, ca.Type)
	}
	made := s.snapshots()
	if len(made) != 1 || made[0].Spec.Source == nil || made[0].Spec.Source.Slot != "20260304T050000Z" || made[0].Spec.Source.Store.S3.Prefix != "former/blue" ||
		made[0].Spec.Source.Store.S3.CredentialsRef.Name != "s3" {
		t.Fatalf("the snapshots are %+v", made)
	}
	// The new cluster takes these keys, and makes none of its own.
	material := s.ensureKeys("blue")
	if len(material.Generated) > 0 || !bytes.Equal(must[[]byte](t)(pki.EncodeKeys(material)), f.keys) {
		t.Errorf("the new cluster generates %v", material.Generated)
	}

	// The same again changes nothing; another slot is another snapshot with the same keys.
	s.expect(0, []string{"Everything is there already", "blue-restore-20260304t050000z"}, f.restore("blue", "--latest")...)
	s.expect(0, []string{"KOKEtcdSnapshot " + s.namespace + "/blue-restore-20260304t040000z is created"}, f.restore("blue", "--slot", "20260304T040000Z")...)
	if made := s.snapshots(); len(made) != 2 {
		t.Errorf("the snapshots are %+v", made)
	}

	// A volume is not seen: its keys come as a file.
	keys := filepath.Join(t.TempDir(), "keys.age")
	must[any](t)(nil, os.WriteFile(keys, must[[]byte](t)(pki.SealKeys(f.keys, []string{f.person.Recipient().String()})), 0o600))
	s.expect(0, []string{"is on a volume that this machine does not see", "snapshot: red-restore-20260304t050000z",
		"needs another spec.etcd.backup.store.claimName than snapshots"},
		"etcd", "restore", "red", "--identity-file", f.identity, "--keys-file", keys, "--claim", "snapshots", "--slot", "20260304T050000Z")
}

// A snapshot is restored with the keys that it was taken with: the encryption key may have been rotated since.
func TestASnapshotIsRestoredWithTheKeysOfItsTime(t *testing.T) {
	s := newSite(t)
	f := s.lose("blue")
	f.take("20260304T040000Z", f.key, true)
	other := newSite(t).ensureKeys("blue")
	signing, _, _, err := other.SnapshotKeys()
	must[any](t)(nil, err)
	newer := must[string](t)(archive.KeysName("1111111111"))
	f.put(newer, must[[]byte](t)(pki.SealKeys(must[[]byte](t)(pki.EncodeKeys(other)), []string{f.person.Recipient().String()})))
	later := time.Now().Add(time.Minute)
	must[any](t)(nil, os.Chtimes(filepath.Join(f.folder, newer), later, later)) // The store tells times in seconds.
	f.take("20260304T050000Z", must[archive.Key](t)(archive.NewKey(signing)), true)

	out := s.expect(0, []string{"Choose one by --slot"}, f.restore("blue", "--dry-run")...)
	if strings.Count(out, "yes") != 2 || strings.Contains(out, "signed by key") {
		t.Errorf("it shows\n%s", out)
	}
	encryptionKey := func(cluster string) []byte {
		secret := &corev1.Secret{}
		must[any](t)(nil, environment.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: cluster + "-encryption"}, secret))
		return secret.Data["encryption-key"]
	}
	out = s.expect(0, []string{"The snapshot 20260304T050000Z of former/blue"}, f.restore("green", "--latest")...)
	if strings.Contains(out, "keyRotation") {
		t.Errorf("the newest snapshot asks for a rotation:\n%s", out)
	}
	if !bytes.Equal(encryptionKey("green"), other.EncryptionKey) {
		t.Error("the newest snapshot comes without its key")
	}
	out = s.expect(0, []string{"The snapshot 20260304T040000Z of former/blue"}, f.restore("red", "--slot", "20260304T040000Z")...)
	printed := struct {
		Spec controlplanev1.KOKControlPlaneSpec
	}{}
	must[any](t)(nil, yaml.UnmarshalStrict([]byte(out), &printed))
	if asked := printed.Spec.KeyRotation; !slices.Equal(asked.Kinds, []controlplanev1.KeyKind{controlplanev1.EncryptionKeyKind}) || asked.PrepareAfter.IsZero() || !asked.CompleteAfter.Equal(&asked.PrepareAfter) {
		t.Errorf("the older snapshot asks for the rotation %+v:\n%s", asked, out)
	}
	if !strings.Contains(out, "come back with the snapshot: cluster CA, etcd CA, events etcd CA, front proxy CA, service account key, encryption key.") {
		t.Errorf("it does not tell which other keys come back:\n%s", out)
	}
	if got := encryptionKey("red"); bytes.Equal(got, other.EncryptionKey) || len(got) != 32 {
		t.Error("the older snapshot comes with the newer key")
	}
}

func TestARestoreThatCannotBeIsRefused(t *testing.T) {
	s := newSite(t)
	f := s.lose("blue")
	f.take("20260304T040000Z", f.key, true)
	stranger := must[*age.X25519Identity](t)(age.GenerateX25519Identity())
	other := must[archive.Key](t)(archive.NewKey([]byte(strings.Repeat("another tenant's ", 4))))
	f.take("20260304T050000Z", other, true)
	f.take("20260304T060000Z", f.key, false)
	cut := f.take("20260304T070000Z", f.key, true)
	must[any](t)(nil, os.Truncate(filepath.Join(f.folder, cut), 5))
	f.take("20260304T080000Z", f.key, true)
	manifest := filepath.Join(f.folder, "20260304T080000Z.json")
	must[any](t)(nil, os.WriteFile(manifest, bytes.Replace(must[[]byte](t)(os.ReadFile(manifest)), []byte("4711"), []byte("4712"), 1), 0o600))

	s.secretOf("empty", nil)
	s.secretOf("wrong", map[string][]byte{"accessKeyID": []byte(s3server.AccessKey), "secretAccessKey": []byte("guess")})
	last := func(flags ...string) []string { return f.restore("blue", flags...) } // The last of two equal flags counts.
	for says, arguments := range map[string][]string{
		"--identity-file: no secret key in":                       {"etcd", "restore", "blue", "--identity-file", f.identityFile(stranger), "--latest"},
		"--slot 20260304T050000Z: Foreign":                        last("--slot", "20260304T050000Z"),
		"the snapshot 20260304T060000Z is not verified":           last("--slot", "20260304T060000Z"),
		"--slot 20260304T070000Z: Truncated":                      last("--slot", "20260304T070000Z"),
		"--slot 20260304T080000Z: Tampered":                       last("--slot", "20260304T080000Z"),
		"--slot: the store has no snapshot 20260304T090000Z":      last("--slot", "20260304T090000Z"),
		"--s3-prefix: there is no snapshot at nobody/blue":        last("--latest", "--s3-prefix", "nobody/blue"),
		"--s3-bucket: there is no bucket others":                  last("--latest", "--s3-bucket", "others"),
		"--s3-credentials-secret: the secretAccessKey":            last("--latest", "--s3-credentials-secret", "wrong"),
		"--s3-credentials-secret: there is no Secret":             last("--latest", "--s3-credentials-secret", "none"),
		"has no key accessKeyID":                                  last("--latest", "--s3-credentials-secret", "empty"),
		"--s3-ca-secret: Secret " + s.namespace + "/empty has no": last("--latest", "--s3-ca-secret", "empty"),
		"--s3-endpoint: the server cannot be reached":             last("--latest", "--s3-endpoint", "http://127.0.0.1:1"),
		"--s3-endpoint: \"s3.example.com\" is no address":         last("--latest", "--s3-endpoint", "s3.example.com"),
		"name a snapshot by --slot":                               last(),
	} {
		if arguments[4] != f.identity {
			arguments = append(arguments, f.flags...)
		}
		s.expect(2, []string{says}, arguments...)
	}
	if made := s.snapshots(); len(made) != 0 || s.has("blue-ca", &corev1.Secret{}) {
		t.Fatalf("something was written: %v", made)
	}

	// What is wrong with the newer ones is told, and the newest good one is taken, unless other keys are there.
	s.secretOf("blue-sa", map[string][]byte{"tls.crt": []byte("another"), "tls.key": []byte("another")})
	s.expect(2, []string{
		"20260304T080000Z is left out: Tampered", "20260304T070000Z is left out: Truncated", "20260304T050000Z is left out: Foreign", "has Secrets with other keys than those of the snapshot: blue-sa;",
	}, last("--latest")...)
	if s.has("blue-ca", &corev1.Secret{}) {
		t.Fatal("something was written")
	}
	s.controlPlane("blue-cp", "blue")
	s.expect(2, []string{"has KOKControlPlane blue-cp already", "another name"}, last("--latest")...)
	s.expect(0, []string{"green-restore-20260304t040000z"}, f.restore("green", "--latest")...)
}
