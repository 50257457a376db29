//go:build envtest

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/s3server"
)

// patience bounds each wait.
const patience = 2 * time.Minute

// roleRestores is that of the child that restores.
const roleRestores = "restores"

func TestMain(m *testing.M) {
	if reexec.Role() != roleRestores {
		os.Exit(m.Run())
	}
	if err := snapshot.Main(os.Stdin, os.Stdout); err != nil {
		panic(err)
	}
}

func etcdProgram() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd") }

// member is one of etcd, and its agent.
type member struct {
	name, endpoint, agent string
	address               *net.TCPAddr
	dataDir, storeDir     string
	command               *exec.Cmd
	ended                 chan struct{}
	said                  *output.Buffer
}

func (m *member) stop() {
	_ = m.command.Process.Kill()
	<-m.ended
}

// world is a cluster of etcd, an agent beside each member, and the files that the manager writes.
type world struct {
	*testing.T
	ca       *authority
	members  []*member
	client   *clientv3.Client
	config   string
	storeDir string
	identity *age.X25519Identity
	// ahead is how far the clock of agents is ahead, in nanoseconds.
	ahead atomic.Int64
}

const hmacKey = "a key of manifests, which has 32 bytes and more"

// newWorld starts it. flags are some more of etcd.
func newWorld(t *testing.T, size int, config backup.Config, flags ...string) *world {
	t.Helper()
	w := &world{T: t, ca: newAuthority(t), config: t.TempDir(), storeDir: t.TempDir()}
	// It begins with a slot, so that no test comes to the next one by itself.
	w.ahead.Store(int64(time.Until(archive.SlotOf(time.Now().Add(time.Hour), time.Hour).Add(mostOffset))))
	var err error
	w.identity, err = age.GenerateX25519Identity()
	must(t, err)
	w.write(backup.KeyFile, hmacKey)
	w.write(backup.IdentityFile, w.identity.String())
	w.write(backup.KeysFile, "encrypted")
	w.write(backup.AccessKeyIDFile, s3server.AccessKey)
	w.write(backup.SecretAccessKeyFile, s3server.SecretKey)
	w.configure(config)
	w.startEtcd(size, flags)
	for _, m := range w.members {
		m.address, m.storeDir = loopback.Free(w), w.storeDir
		if config.Store.PerMember {
			m.storeDir = w.TempDir()
		}
		m.agent = "https://" + m.address.String()
	}
	for _, m := range w.members {
		w.startAgent(m)
	}
	return w
}

func (w *world) write(name, content string) {
	w.Helper()
	temporary := filepath.Join(w.config, ".new")
	must(w, os.WriteFile(temporary, []byte(content), 0o600))
	must(w, os.Rename(temporary, filepath.Join(w.config, name)))
}

// configure writes a configuration, with what is not said.
func (w *world) configure(c backup.Config) {
	w.Helper()
	c.Cluster = backup.Cluster{Namespace: "team", Name: "one", UID: "1-2"}
	if c.Every == 0 {
		c.Every = time.Hour
	}
	if c.Keep.Last == 0 {
		c.Keep.Last = 3
	}
	if c.Recipients == nil {
		c.Recipients = []string{w.identity.Recipient().String()}
	}
	file, err := backup.Encode(c)
	must(w, err)
	w.write(backup.ConfigFile, string(file))
}

func (w *world) startEtcd(size int, flags []string) {
	w.Helper()
	address, peers := make([]*net.TCPAddr, size), make([]string, size)
	var cluster []string
	var ips []net.IP
	for i := range size {
		address[i], peers[i] = loopback.Free(w), "http://"+loopback.Free(w).String()
		ips = append(ips, address[i].IP)
		cluster = append(cluster, fmt.Sprintf("one-%d=%s", i, peers[i]))
	}
	certificate, key := w.ca.files("etcd", ips...)
	var endpoints []string
	for i := range size {
		m := &member{name: fmt.Sprintf("one-%d", i), endpoint: "https://" + address[i].String(), dataDir: w.TempDir(), ended: make(chan struct{}), said: &output.Buffer{}}
		m.command = exec.Command(etcdProgram(), "--name="+m.name, "--data-dir="+m.dataDir, "--listen-client-urls="+m.endpoint, "--advertise-client-urls="+m.endpoint,
			"--listen-peer-urls="+peers[i], "--initial-advertise-peer-urls="+peers[i], "--initial-cluster="+strings.Join(cluster, ","), "--listen-metrics-urls=", "--log-level=error", "--unsafe-no-fsync",
			"--enable-grpc-gateway=false", "--cert-file="+certificate, "--key-file="+key, "--client-cert-auth", "--trusted-ca-file="+w.ca.file)
		m.command.Args = append(m.command.Args, flags...)
		m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must(w, m.command.Start())
		go func() {
			_ = m.command.Wait()
			close(m.ended)
		}()
		w.Cleanup(m.stop)
		w.members, endpoints = append(w.members, m), append(endpoints, m.endpoint)
	}
	var err error
	w.client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: w.ca.client("person"), Logger: zap.NewNop(), DialTimeout: patience})
	must(w, err)
	w.Cleanup(func() { _ = w.client.Close() })
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	_, err = w.client.Put(ctx, "a", "b")
	must(w, err)
}

func (w *world) startAgent(m *member) {
	w.Helper()
	o := Options{
		ConfigDir: w.config, Member: m.name, Endpoint: m.endpoint, Listen: m.address.String(), Scratch: w.TempDir(), StoreDir: m.storeDir, DataDir: m.dataDir, Etcd: etcdProgram(),
		Program: func(ctx context.Context) *exec.Cmd { return reexec.Command(ctx, roleRestores) }, Log: slog.New(slog.NewTextHandler(m.said, nil)),
		Now: w.now, Interval: 100 * time.Millisecond, Serving: Serving{ClientCA: w.ca.file, ClientName: manager, PeerName: peers}, Client: snapshot.TLSFiles{CA: w.ca.file},
		AgentOf: func(name string) string {
			return w.members[slices.IndexFunc(w.members, func(m *member) bool { return m.name == name })].address.String()
		},
	}
	o.Client.Certificate, o.Client.Key = w.ca.files(peers)
	o.Serving.Certificate, o.Serving.Key = w.ca.files(m.name, m.address.IP)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		if w.Failed() {
			w.Logf("%s says:\n%s", m.name, m.said)
		}
	})
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// report is what an agent answers; false where it does not.
func (w *world) report(m *member) (r backup.Report, answers bool) {
	w.Helper()
	code, text, err := ask(w.T, w.ca.client(manager), http.MethodGet, m.agent+backup.ReportPath, "")
	if err != nil || code != http.StatusOK {
		return r, false
	}
	must(w, json.Unmarshal([]byte(text), &r))
	return r, true
}

// until waits until an agent's report is as it should be.
func (w *world) until(what string, m *member, is func(backup.Report) bool) backup.Report {
	w.Helper()
	deadline := time.After(patience)
	for {
		r, answers := w.report(m)
		if answers && is(r) {
			return r
		}
		select {
		case <-deadline:
			w.Fatalf("%s: %s says %+v, problem %+v", what, m.name, r, r.Problem)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// hasVerified reports whether there are so many snapshots, and all are verified.
func hasVerified(n int) func(backup.Report) bool {
	return func(r backup.Report) bool {
		if len(r.Snapshots) != n {
			return false
		}
		for _, s := range r.Snapshots {
			if s.Verified.IsZero() || s.Reason != "" {
				return false
			}
		}
		return r.Problem == nil
	}
}

// steady are the flags of members that elect nobody else because the machine is busy for a moment.
var steady = []string{"--heartbeat-interval=500", "--election-timeout=10000"}

// expected is who has to be on duty of those that run.
func (w *world) expected(running []*member) *member {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for _, m := range running {
		var status *clientv3.StatusResponse
		must(w, wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			var err error
			status, err = w.client.Status(ctx, m.endpoint)
			return err == nil && status.Leader != 0, nil
		}))
		if status.Leader != status.Header.MemberId {
			return m
		}
	}
	w.Fatal("nobody follows")
	return nil
}

func s3Of(server s3server.Server) backup.Store {
	return backup.Store{S3: &backup.S3{Endpoint: server.Endpoint, Bucket: s3server.Bucket, Prefix: "team/one"}}
}

// objects are the names of what is in the bucket, by their ends.
func objects(t *testing.T, server s3server.Server, end string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(server.Folder, s3server.Bucket, "team", "one", "*"+end))
	must(t, err)
	return found
}

func TestOneOfThreeMembersTakesASlot(t *testing.T) {
	server := s3server.Start(t, "", "")
	w := newWorld(t, 3, backup.Config{Store: s3Of(server), KeysID: "0123456789abcdef", EncryptionKeyID: "key1", Keep: backup.Keep{Last: 2}}, steady...)
	duty := w.expected(w.members)
	r := w.until("the first slot", duty, func(r backup.Report) bool { return r.OnDuty && hasVerified(1)(r) })
	first := r.Snapshots[0]
	if first.Member != duty.name || first.TenantUID != "1-2" || first.EncryptionKeyID != "key1" || first.Revision < 2 || first.DatabaseBytes < 4096 || first.StoredBytes < 1000 ||
		len(first.SHA256) != 64 || first.EtcdVersion == "" || first.StorageVersion != "3.6" || !first.Slot.Equal(archive.SlotOf(w.now(), time.Hour)) {
		t.Errorf("it tells %+v", first)
	}
	// The others list it, and took nothing.
	for _, m := range w.members {
		if m == duty {
			continue
		}
		w.until("what others list", m, func(r backup.Report) bool { return hasVerified(1)(r) && !r.OnDuty && r.Snapshots[0] == first })
		if strings.Contains(m.said.String(), "a snapshot is stored") {
			t.Errorf("%s took one, too:\n%s", m.name, m.said)
		}
	}
	if all, keys := objects(t, server, ".zst.age"), objects(t, server, "keys-0123456789abcdef.age"); len(all) != 1 || len(keys) != 1 {
		t.Errorf("stored are %v and %v", all, keys)
	}
	// Others than the manager are told nothing.
	if code, text, err := ask(t, w.ca.client("kube-apiserver"), http.MethodGet, duty.agent+backup.ReportPath, ""); err != nil || code != http.StatusForbidden {
		t.Errorf("another name is told %d %s: %v", code, text, err)
	}
	if code, _, err := ask(t, w.ca.client(""), http.MethodGet, duty.agent+backup.ReportPath, ""); err == nil {
		t.Errorf("nobody is told %d", code)
	}

	// The member on duty is lost: the next slot is another one's.
	duty.stop()
	w.ahead.Add(int64(time.Hour))
	var left []*member
	for _, m := range w.members {
		if m != duty {
			left = append(left, m)
		}
	}
	// An election may come first.
	var second *member
	for deadline := time.After(patience); second == nil; {
		select {
		case <-deadline:
			t.Fatal("nobody takes the second slot")
		case <-time.After(50 * time.Millisecond):
		}
		for _, m := range left {
			if r, answers := w.report(m); answers && r.OnDuty && len(r.Snapshots) == 2 {
				second = m
			}
		}
	}
	r = w.until("the second slot", second, hasVerified(2))
	if s := r.Snapshots[0]; s.Member == duty.name || !s.Slot.Equal(first.Slot.Add(time.Hour)) || r.Snapshots[1] != first {
		t.Errorf("it tells %+v", r.Snapshots)
	}
	w.until("what is said of a member that does not answer", duty, func(r backup.Report) bool { return r.Problem != nil && !r.OnDuty })

	// Old ones go when newer ones are verified.
	w.ahead.Add(int64(time.Hour))
	third := first.Slot.Add(2 * time.Hour)
	r = w.until("the third slot", second, func(r backup.Report) bool { return hasVerified(2)(r) && r.Snapshots[0].Slot.Equal(third) })
	if !r.Snapshots[1].Slot.Equal(first.Slot.Add(time.Hour)) {
		t.Errorf("left are %+v", r.Snapshots)
	}
	if keys := objects(t, server, "keys-0123456789abcdef.age"); len(keys) != 1 {
		t.Errorf("keys are %v", keys)
	}
}

// Each member has a volume of its own, one takes the snapshot of a slot, and in the end all have it.
func TestEveryMemberKeepsEverySnapshot(t *testing.T) {
	w := newWorld(t, 3, backup.Config{Store: backup.Store{PerMember: true}, KeysID: "0123456789abcdef", Keep: backup.Keep{Last: 2}}, steady...)
	duty := w.expected(w.members)
	first := w.until("the first slot", duty, func(r backup.Report) bool { return r.OnDuty && r.Own && hasVerified(1)(r) }).Snapshots[0]
	var others []*member
	for _, m := range w.members {
		if m == duty {
			continue
		}
		others = append(others, m)
		w.until("the copy", m, func(r backup.Report) bool { return hasVerified(1)(r) && r.Snapshots[0] == first })
		if strings.Contains(m.said.String(), "a snapshot is stored") {
			t.Errorf("%s took one, too:\n%s", m.name, m.said)
		}
		if files, err := filepath.Glob(filepath.Join(m.storeDir, "*")); err != nil || len(files) != 4 {
			t.Errorf("%s has %v: %v", m.name, files, err)
		}
	}

	// One that is replaced begins with a blank volume, and gets them again.
	files, err := filepath.Glob(filepath.Join(others[0].storeDir, "*"))
	must(t, err)
	for _, file := range files {
		must(t, os.Remove(file))
	}
	w.until("the copy for a blank volume", others[0], func(r backup.Report) bool {
		again, err := filepath.Glob(filepath.Join(others[0].storeDir, "*.verified.json"))
		return err == nil && len(again) == 1 && hasVerified(1)(r)
	})

	// What the manager asks one member for comes to all.
	asked := archive.SlotOf(w.now(), time.Hour).Add(17*time.Minute + 5*time.Second)
	body, err := json.Marshal(backup.TakeRequest{Slot: asked})
	must(t, err)
	if code, text, err := ask(t, w.ca.client(manager), http.MethodPost, others[1].agent+backup.TakePath, string(body)); err != nil || code != http.StatusAccepted {
		t.Fatalf("it says %d %s: %v", code, text, err)
	}
	for _, m := range w.members {
		w.until("what was asked for", m, func(r backup.Report) bool {
			return hasVerified(2)(r) && r.Snapshots[0].Slot.Equal(asked) && r.Snapshots[0].Member == others[1].name
		})
	}

	// The member on duty is lost, the next slot is another one's, and old ones go from every volume.
	duty.stop()
	w.ahead.Add(int64(time.Hour))
	for _, m := range others {
		w.until("the second slot", m, func(r backup.Report) bool {
			return len(r.Snapshots) == 2 && r.Snapshots[0].Slot.Equal(first.Slot.Add(time.Hour)) && r.Snapshots[1].Slot.Equal(asked) && !r.Snapshots[0].Verified.IsZero()
		})
	}
	taken := strings.Count(others[0].said.String(), "a snapshot is stored") + strings.Count(others[1].said.String(), "a snapshot is stored")
	if taken != 2 {
		t.Errorf("they took %d", taken)
	}
}

// What others would copy is judged by what this tenant signed: a member whose volume somebody changed gives nobody anything.
func TestNobodyCopiesWhatTheTenantDidNotWrite(t *testing.T) {
	w := newWorld(t, 3, backup.Config{Store: backup.Store{PerMember: true}}, steady...)
	duty := w.expected(w.members)
	first := w.until("the first slot", duty, hasVerified(1)).Snapshots[0]
	other := w.members[slices.IndexFunc(w.members, func(m *member) bool { return m != duty })]
	w.until("the copy", other, hasVerified(1))
	// Both lose it but for its object, which is changed on one.
	objects, err := filepath.Glob(filepath.Join(duty.storeDir, "*.zst.age"))
	must(t, err)
	for _, m := range w.members {
		if m != duty {
			files, err := filepath.Glob(filepath.Join(m.storeDir, "*"))
			must(t, err)
			for _, file := range files {
				must(t, os.Remove(file))
			}
		}
	}
	content, err := os.ReadFile(objects[0])
	must(t, err)
	content[len(content)/2] ^= 1
	must(t, os.WriteFile(objects[0], content, 0o600))
	w.until("what is said of it", other, func(r backup.Report) bool {
		return r.Problem != nil && strings.Contains(r.Problem.Message, archive.SlotName(first.Slot)) && strings.Contains(r.Problem.Message, "is not what its manifest says") && len(r.Snapshots) == 0
	})
}

func TestWhatIsWrongIsToldByItsField(t *testing.T) {
	server := s3server.Start(t, "", "")
	wrong := s3Of(server)
	wrong.S3.Bucket = "not-there"
	w := newWorld(t, 1, backup.Config{Store: wrong})
	m := w.members[0]
	// On a busy machine another problem may come first, such as an etcd that does not answer in time.
	r := w.until("a bucket that is not there", m, func(r backup.Report) bool { return r.Problem != nil && r.Problem.Field == "store.s3.bucket" })
	if p := r.Problem; p.Reason != "" || !strings.Contains(p.Message, "not-there") || p.Since.IsZero() || !r.OnDuty {
		t.Errorf("it tells %+v", p)
	}
	// The only recipient is the tenant's own, and is none.
	w.configure(backup.Config{Store: s3Of(server), Recipients: []string{"age1"}})
	w.ahead.Add(int64(time.Hour))
	w.until("a recipient that is none", m, func(r backup.Report) bool { return r.Problem != nil && r.Problem.Field == "recipients" })
	// A file that is cut off.
	w.write(backup.ConfigFile, "{")
	w.until("a file that is none", m, func(r backup.Report) bool {
		return r.Problem != nil && strings.Contains(r.Problem.Message, backup.ConfigFile) && !r.OnDuty
	})
	w.configure(backup.Config{Store: s3Of(server)})
	w.ahead.Add(int64(5 * time.Minute))
	w.until("all is well again", m, hasVerified(1))
	for _, secret := range []string{s3server.SecretKey, w.identity.String(), hmacKey} {
		if strings.Contains(m.said.String(), secret) {
			t.Errorf("it logs a secret:\n%s", m.said)
		}
	}
}

func TestTheManagerAsksForASnapshot(t *testing.T) {
	w := newWorld(t, 3, backup.Config{}, steady...)
	duty := w.expected(w.members)
	w.until("the slot", duty, hasVerified(1))
	var asked *member
	for _, m := range w.members {
		if m != duty {
			asked = m
		}
	}
	slot := archive.SlotOf(w.now(), time.Hour).Add(17*time.Minute + 5*time.Second)
	body, err := json.Marshal(backup.TakeRequest{Slot: slot})
	must(t, err)
	for range 2 {
		if code, text, err := ask(t, w.ca.client(manager), http.MethodPost, asked.agent+backup.TakePath, string(body)); err != nil || code != http.StatusAccepted {
			t.Fatalf("it says %d %s: %v", code, text, err)
		}
	}
	r := w.until("what was asked for", asked, hasVerified(2))
	if s := r.Snapshots[0]; !s.Slot.Equal(slot) || s.Member != asked.name || r.OnDuty {
		t.Errorf("it tells %+v", s)
	}
	if n := strings.Count(asked.said.String(), "a snapshot is stored"); n != 1 {
		t.Errorf("it took %d:\n%s", n, asked.said)
	}
	// A person wants none of them any more: the newest one stays.
	newest, before := r.Snapshots[0].Slot, r.Snapshots[1].Slot
	for _, slot := range []time.Time{newest, before} {
		body, err := json.Marshal(backup.DeleteRequest{Slot: slot})
		must(t, err)
		if code, text, err := ask(t, w.ca.client(manager), http.MethodPost, asked.agent+backup.DeletePath, string(body)); err != nil || code != http.StatusAccepted {
			t.Fatalf("it says %d %s: %v", code, text, err)
		}
	}
	w.until("what nobody wants goes", asked, func(r backup.Report) bool { return len(r.Snapshots) == 1 && r.Snapshots[0].Slot.Equal(newest) })
}

// A snapshot that is not what its member had is tried once, told, and not deleted.
func TestATrialThatRefusesIsNotMadeAgain(t *testing.T) {
	w := newWorld(t, 1, backup.Config{})
	m := w.members[0]
	first := w.until("the slot", m, hasVerified(1)).Snapshots[0]
	s, err := store.OpenDirectory(w.storeDir, store.FieldClaimName)
	must(t, err)
	defer s.Close()
	key, err := archive.NewKey([]byte(hmacKey))
	must(t, err)
	e, err := snapshot.Find(t.Context(), s, key, first.Slot)
	must(t, err)
	object, err := os.ReadFile(filepath.Join(w.storeDir, e.Manifest.Object))
	must(t, err)
	other := e.Manifest
	other.Slot = first.Slot.Add(time.Second)
	other.Object, other.HashKV = archive.NewObjectName(other.Slot), other.HashKV+1
	file, err := key.Sign(other)
	must(t, err)
	must(t, s.Put(t.Context(), other.Object, bytes.NewReader(object)))
	must(t, s.Put(t.Context(), archive.ManifestName(other.Slot), bytes.NewReader(file)))
	refused := func(r backup.Report) bool {
		return r.Problem != nil && r.Problem.Reason == string(archive.HashDiffers) && r.Problem.Slot.Equal(other.Slot) && len(r.Snapshots) == 2 && r.Working.IsZero()
	}
	// The manager's question has the store listed once a minute.
	w.ahead.Add(int64(time.Minute))
	w.until("what is not as its member was", m, refused)
	// It is told for as long as nothing newer is verified.
	w.ahead.Add(int64(10 * time.Minute))
	later := w.now()
	w.until("what it tells ten minutes later", m, func(r backup.Report) bool { return refused(r) && r.Listed.After(later) })
	w.ahead.Add(int64(time.Hour))
	w.until("the next slot", m, func(r backup.Report) bool {
		return len(r.Snapshots) == 3 && r.Problem == nil && !r.Snapshots[0].Verified.IsZero()
	})
	if n := strings.Count(m.said.String(), "HashDiffers"); n != 1 {
		t.Errorf("it tried it %d times:\n%s", n, m.said)
	}
}
