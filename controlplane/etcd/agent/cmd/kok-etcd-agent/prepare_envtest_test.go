//go:build envtest

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// slotOfSeed is that of the snapshot which a member begins with.
const slotOfSeed = "20260304T050000Z"

// seeded is a store with a snapshot that is verified and a later one that is not, and the folder of the manager's Secret.
func seeded(t *testing.T) (storeDir, folder string, seed backup.Seed) {
	t.Helper()
	endpoint, files := secured(t)
	tenant, err := age.GenerateX25519Identity()
	must(t, err)
	storeDir, folder = t.TempDir(), t.TempDir()
	key := strings.Repeat("k", 32)
	must(t, os.WriteFile(filepath.Join(folder, backup.KeyFile), []byte(key), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, backup.IdentityFile), []byte(tenant.String()), 0o600))
	in := []string{"--store-dir=" + storeDir, "--hmac-key-file=" + filepath.Join(folder, backup.KeyFile)}
	take := slices.Concat([]string{
		"snapshot", "--endpoint=" + endpoint, "--cacert=" + files.CA, "--cert=" + files.Certificate, "--key=" + files.Key, "--cluster=team/one", "--tenant-uid=1-2",
		"--recipients-file=" + keyFile(t, "recipients", tenant.Recipient().String()),
	}, in)
	verify := slices.Concat([]string{
		"verify", "--scratch=" + t.TempDir(), "--identity-file=" + filepath.Join(folder, backup.IdentityFile), "--etcd=" + etcdProgram(),
	}, in)
	for _, args := range [][]string{append(take, "--slot=2026-03-04T05:00:00Z"), verify, append(take, "--slot=2026-03-04T06:00:00Z")} {
		_, _, err := execute(t, args...)
		must(t, err)
	}
	slot, err := archive.ParseSlot(slotOfSeed)
	must(t, err)
	return storeDir, folder, backup.Seed{Slot: slot, Member: "one-0", PeerURL: "http://" + loopback.Free(t).String(), TenantUID: "1-2", EtcdVersion: "3.6.8"}
}

func etcdProgram() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd") }

func writeSeed(t *testing.T, folder string, seed backup.Seed) {
	t.Helper()
	file, err := backup.Encode(seed)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, backup.SeedFile), file, 0o600))
}

// told is what the manager reads.
func told(t *testing.T, log string) facts.Facts {
	t.Helper()
	message, err := os.ReadFile(log)
	must(t, err)
	f, err := facts.Decode(string(message))
	must(t, err)
	return f
}

// starts has etcd start from a directory. The value that secured wrote is there, and etcd takes new ones.
func starts(t *testing.T, dataDir, peer string) {
	t.Helper()
	endpoint := "http://" + loopback.Free(t).String()
	etcd := exec.Command(etcdProgram(), "--name=one-0", "--data-dir="+dataDir, "--listen-client-urls="+endpoint, "--advertise-client-urls="+endpoint, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=one-0="+peer, "--initial-cluster-token=another", "--listen-metrics-urls=", "--log-level=error")
	etcd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, etcd.Start())
	defer func() {
		_ = etcd.Process.Signal(syscall.SIGTERM)
		_ = etcd.Wait()
	}()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialTimeout: time.Minute})
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := client.Get(ctx, "a")
	must(t, err)
	if len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != "b" || answer.Header.Revision < 1_000_000_000 {
		t.Errorf("etcd has %v", answer)
	}
	_, err = client.Put(ctx, "new", "value")
	must(t, err)
}

func TestAMemberBeginsWithASnapshot(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	storeDir, folder, seed := seeded(t)
	writeSeed(t, folder, seed)
	prepare := func(dataDir string) (facts.Facts, error) {
		t.Helper()
		_, _, err := execute(t, "prepare", "--hold", "--data-dir="+dataDir, "--termination-log=log", "--seed-dir="+folder, "--seed-store-dir="+storeDir, "--member=one-0")
		return told(t, "log"), err
	}
	first, err := prepare("data")
	if err != nil || first.State != facts.Present || first.Seed != "" || first.Revision < 1_000_000_000 || !first.Checked {
		t.Fatalf("it finds %s: %v", first, err)
	}
	starts(t, "data", seed.PeerURL)
	// It restarts, and keeps what was written since.
	again, err := prepare("data")
	if err != nil || again.State != facts.Present || again.MemberID != first.MemberID || again.ClusterID != first.ClusterID || again.Index <= first.Index || again.Revision < first.Revision {
		t.Errorf("it finds %s: %v", again, err)
	}
	starts(t, "data", seed.PeerURL)
	// The same snapshot, restored once more, is another cluster.
	other, err := prepare("other")
	if err != nil || other.State != facts.Present || other.ClusterID == first.ClusterID || other.MemberID == first.MemberID {
		t.Errorf("it finds %s: %v", other, err)
	}
}

// A client that has seen a revision takes an etcd that is behind it for one that has nothing new, and waits.
func TestASnapshotThatIsRestoredInPlaceAgainIsAheadOfAllThatWasWrittenSince(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	storeDir, folder, seed := seeded(t)
	prepare := func(dataDir, request string) facts.Facts {
		t.Helper()
		seed.Restore = request
		writeSeed(t, folder, seed)
		_, _, err := execute(t, "prepare", "--hold", "--data-dir="+dataDir, "--termination-log=log", "--seed-dir="+folder, "--seed-store-dir="+storeDir, "--member=one-0")
		must(t, err)
		return told(t, "log")
	}
	prepare("first", "2026-05-01T10:00:00Z")
	starts(t, "first", seed.PeerURL)
	written := prepare("first", "2026-05-01T10:00:00Z")
	again := prepare("again", "2026-05-01T10:00:01Z")
	if again.State != facts.Present || again.Revision <= written.Revision {
		t.Errorf("it begins with revision %d, and %d was seen", again.Revision, written.Revision)
	}
}

func TestASnapshotThatIsNotRestoredLeavesTheDirectoryEmpty(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	storeDir, folder, good := seeded(t)
	objects, err := filepath.Glob(filepath.Join(storeDir, slotOfSeed+"-*.zst.age"))
	must(t, err)
	change := func(path string, how func([]byte) []byte) func(*testing.T) {
		return func(t *testing.T) {
			content, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, how(content), 0o600))
			t.Cleanup(func() { must(t, os.WriteFile(path, content, 0o600)) })
		}
	}
	stranger, err := age.GenerateX25519Identity()
	must(t, err)
	for name, test := range map[string]struct {
		seed   func(*backup.Seed)
		damage func(*testing.T)
		args   []string
		says   string
	}{
		"of another tenant":   {seed: func(s *backup.Seed) { s.TenantUID = "3" }, says: "Foreign: "},
		"of another key":      {damage: change(filepath.Join(folder, backup.KeyFile), bytes.ToUpper), says: "Foreign: "},
		"for an older etcd":   {seed: func(s *backup.Seed) { s.EtcdVersion = "3.5.21" }, says: "TooNew: "},
		"not verified":        {seed: func(s *backup.Seed) { s.Slot = s.Slot.Add(time.Hour) }, says: "NotVerified: "},
		"cut off":             {damage: change(objects[0], func(b []byte) []byte { return b[:len(b)-50] }), says: "Truncated: "},
		"of other bytes":      {damage: change(objects[0], func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }), says: "Tampered: "},
		"opened by no key":    {damage: change(filepath.Join(folder, backup.IdentityFile), func([]byte) []byte { return []byte(stranger.String()) }), says: "KeyMissing: "},
		"not there":           {seed: func(s *backup.Seed) { s.Slot = s.Slot.Add(-time.Hour) }, says: "NotFound: there is no snapshot 20260304T040000Z in the store"},
		"in no store":         {args: []string{"--seed-store-dir=/none"}, says: "claimName: "},
		"in a wrong bucket":   {seed: func(s *backup.Seed) { s.Store.S3 = &backup.S3{Endpoint: "x", Bucket: "b"} }, says: "s3.endpoint: "},
		"without time for it": {args: []string{"--seed-timeout=1ns"}, says: ""},
		"of a file that is cut off": {damage: func(t *testing.T) {
			must(t, os.WriteFile(filepath.Join(folder, backup.SeedFile), []byte("{"), 0o600))
		}, says: "read seed.json: "},
	} {
		t.Run(name, func(t *testing.T) {
			seed := good
			if test.seed != nil {
				test.seed(&seed)
			}
			writeSeed(t, folder, seed)
			if test.damage != nil {
				test.damage(t)
			}
			t.Setenv(facts.StartAnyway, "true")
			data, log := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "log")
			args := append([]string{"prepare", "--data-dir=" + data, "--termination-log=" + log, "--seed-dir=" + folder, "--seed-store-dir=" + storeDir, "--member=one-0"}, test.args...)
			out, _, err := execute(t, args...)
			f := told(t, log)
			if err == nil || f.State != facts.Empty || f.Seed == "" || !strings.HasPrefix(f.Seed, test.says) {
				t.Errorf("it tells %s and ends with %v", f, err)
			}
			if !strings.Contains(out, "what it shall begin with is not there: ") || strings.Contains(out, stranger.String()) {
				t.Errorf("people read %s", out)
			}
			if left, _ := filepath.Glob(filepath.Join(data, "*")); len(left) != 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

func TestASeedIsForAnEmptyDirectoryOfItsMember(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	storeDir, folder, seed := seeded(t)
	writeSeed(t, folder, seed)
	must(t, os.MkdirAll("bad/member/wal", 0o700))
	must(t, os.WriteFile("bad/member/wal/0000000000000000-0000000000000000.wal", []byte("no log"), 0o600))
	for name, test := range map[string]struct {
		data, folder, member string
		state                facts.State
	}{
		"another member":                 {"data", folder, "one-1", facts.Empty},
		"no seed":                        {"data", t.TempDir(), "one-0", facts.Empty},
		"no folder":                      {"data", "/none", "one-0", facts.Empty},
		"a directory that is unreadable": {"bad", folder, "one-0", facts.Unreadable},
	} {
		_, _, err := execute(t, "prepare", "--data-dir="+test.data, "--termination-log=log", "--seed-dir="+test.folder, "--seed-store-dir="+storeDir, "--member="+test.member)
		if f := told(t, "log"); err != nil || f.State != test.state || f.Seed != "" {
			t.Errorf("%s: it tells %s: %v", name, f, err)
		}
	}
}
