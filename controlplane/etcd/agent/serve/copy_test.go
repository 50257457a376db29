package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// keeps gives an agent a verified snapshot on its own volume. The object has other content than the manifest says where it is broken.
func keeps(t *testing.T, a *agent, slot time.Time, broken bool) {
	t.Helper()
	s, err := a.open()
	must(t, err)
	defer s.store.Close()
	content := "a snapshot"
	sum := archive.Sum{Bytes: int64(len(content)), SHA256: archive.HashOf([]byte(content))}
	m := archive.Manifest{Slot: slot, Taken: slot, Member: a.Member, EtcdVersion: "3.6.16", StorageVersion: "3.6", Revision: 7, CompactRevision: -1, Object: archive.NewObjectName(slot), Encrypted: sum, Plain: archive.Sum{Bytes: 1 << 20, SHA256: sum.SHA256}}
	m.Cluster = archive.Cluster{Namespace: "team", Name: "one", UID: "1-2"}
	manifest, err := s.reader.Key.Sign(m)
	must(t, err)
	verification, err := s.reader.Key.SignVerification(archive.Verification{Manifest: archive.HashOf(manifest), Verified: slot, EtcdVersion: "3.6.16", Revision: 7})
	must(t, err)
	if broken {
		content = "a snapsHot"
	}
	must(t, s.store.Put(t.Context(), m.Object, strings.NewReader(content)))
	must(t, s.store.Put(t.Context(), archive.ManifestName(slot), bytes.NewReader(manifest)))
	must(t, s.store.Put(t.Context(), archive.VerificationName(slot), bytes.NewReader(verification)))
	must(t, a.list(t.Context(), s))
}

// A copy may take long: other work of the agent comes between two of them.
func TestWhatCannotBeCopiedKeepsNothingElseFromIt(t *testing.T) {
	ca := newAuthority(t)
	own := backup.Store{PerMember: true}
	other, url := answering(t, ca)
	certificate, key := ca.issue("b", 5, net.IPv4(127, 0, 0, 1))
	must(t, os.WriteFile(other.Serving.Certificate, certificate, 0o600))
	must(t, os.WriteFile(other.Serving.Key, key, 0o600))
	other.Member, other.StoreDir = "b", t.TempDir()
	configure(t, other, own)
	for i := range 3 {
		keeps(t, other, noon.Add(-time.Duration(i)*time.Hour), i == 0)
	}
	a, _ := answering(t, ca)
	a.StoreDir = t.TempDir()
	configure(t, a, own)
	a.Client = snapshot.TLSFiles{CA: ca.file}
	a.Client.Certificate, a.Client.Key = ca.files(peers)
	silent := loopback.Free(t).String()
	a.AgentOf = func(name string) string {
		return map[string]string{"a": silent, "b": strings.TrimPrefix(url, "https://")}[name]
	}
	s, err := a.open()
	must(t, err)
	defer s.store.Close()
	all := []peer{{name: "a", healthy: true}, {name: "b", healthy: true}, {name: "me", healthy: true}}
	slots := []time.Time{noon.Add(-time.Hour), noon.Add(-2 * time.Hour)}
	for round := range 3 {
		a.copyMissing(t.Context(), s, all)
		var got []time.Time
		for _, e := range a.listing.of(s.id) {
			if e.Verified() {
				got = append(got, e.Slot)
			}
		}
		if want := slots[:min(round+1, 2)]; !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("after round %d it has %v", round+1, got)
		}
	}
	// What does not come is told.
	for range mostSilent * copyRounds {
		a.copyMissing(t.Context(), s, all)
	}
	if p := a.report().Problem; p == nil || !strings.Contains(p.Message, "the agent of a") || !strings.Contains(p.Message, archive.SlotName(noon)+" of b") {
		t.Errorf("it tells %+v", p)
	}
}

// alone is an agent with a volume of its own, on which so many verified snapshots are, one an hour.
func alone(t *testing.T, snapshots int) (*agent, session) {
	t.Helper()
	a := newAgent(t.Context(), Options{Member: "me", ConfigDir: t.TempDir(), StoreDir: t.TempDir(), Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	configure(t, a, backup.Store{PerMember: true})
	for i := range snapshots {
		keeps(t, a, noon.Add(-time.Duration(i+1)*time.Hour), false)
	}
	s, err := a.open()
	must(t, err)
	t.Cleanup(s.store.Close)
	return a, s
}

// A full store takes nothing. When a person lowers spec.etcd.backup.keep, the agent deletes what expired, and has room again.
func TestWhatExpiredGoesAlsoWhereNothingCanBeStored(t *testing.T) {
	a, s := alone(t, 5)
	if err := a.carryOut(t.Context(), s, step{do: take, slot: noon}); store.FieldOf(err) != fieldRecipients {
		t.Errorf("the snapshot: %v", err)
	}
	must(t, a.list(t.Context(), s))
	if left := a.listing.of(s.id); len(left) != 3 {
		t.Errorf("there are %d snapshots, and 3 are kept", len(left))
	}

	ca := newAuthority(t)
	other, url := answering(t, ca)
	certificate, key := ca.issue("b", 5, net.IPv4(127, 0, 0, 1))
	must(t, os.WriteFile(other.Serving.Certificate, certificate, 0o600))
	must(t, os.WriteFile(other.Serving.Key, key, 0o600))
	other.Member, other.StoreDir = "b", t.TempDir()
	configure(t, other, backup.Store{PerMember: true})
	keeps(t, other, noon, true)
	copies, s := alone(t, 5)
	copies.Client = snapshot.TLSFiles{CA: ca.file}
	copies.Client.Certificate, copies.Client.Key = ca.files(peers)
	copies.AgentOf = func(string) string { return strings.TrimPrefix(url, "https://") }
	copies.copyMissing(t.Context(), s, []peer{{name: "b", healthy: true}, {name: "me", healthy: true}})
	if left := copies.listing.of(s.id); len(left) != 3 {
		t.Errorf("beside a snapshot that cannot be copied there are %d snapshots, and 3 are kept", len(left))
	}
}

// A rotation of the encryption key leaves snapshots that no member reads any more. They go from a member's own volume when a person says so,
// and not by themselves.
func TestAPersonHasASnapshotOfFormerKeysDeleted(t *testing.T) {
	a, _ := alone(t, 2)
	must(t, os.WriteFile(filepath.Join(a.ConfigDir, backup.KeyFile), []byte(strings.Repeat("n", 32)), 0o600))
	s, err := a.open()
	must(t, err)
	defer s.store.Close()
	keeps(t, a, noon, false)
	a.listing.begin(s.id)
	slots := func() (all []string) {
		must(t, a.list(t.Context(), s))
		for _, e := range a.listing.of(s.id) {
			all = append(all, archive.SlotName(e.Slot)+" "+string(archive.ReasonOf(e.Err)))
		}
		return all
	}
	a.prune(t.Context(), s)
	if got, want := slots(), []string{"20260304T120000Z ", "20260304T110000Z Foreign", "20260304T100000Z Foreign"}; !slices.Equal(got, want) {
		t.Fatalf("there are %q", got)
	}
	must(t, a.unwant(noon.Add(-time.Hour)))
	a.step(t.Context(), s)
	if got, want := slots(), []string{"20260304T120000Z ", "20260304T100000Z Foreign"}; !slices.Equal(got, want) {
		t.Errorf("there are %q", got)
	}
}

// The manager tells people what they may delete beside what keep counts.
func TestAProblemSaysThatAVolumeIsFull(t *testing.T) {
	for cause, want := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false} {
		err := fmt.Errorf("copy snapshots from other members: %w", &store.Problem{Field: store.FieldPerMember, Message: "oh", Err: cause})
		if got := problemOf(noon, err).Full; got != want {
			t.Errorf("%v: %t", cause, got)
		}
	}
}

// kubelet evicts a pod whose trial takes more than its volume may, and etcd with it.
func TestATrialThatNeedsMoreThanItsVolumeMayTakeIsNotBegun(t *testing.T) {
	a, s := alone(t, 0)
	a.Quota, a.Etcd = 1<<30, "no-etcd"
	for bytes, says := range map[int64]string{
		5 << 30: "spec.etcd.data.quotaBackendSize to 5121Mi", 1 << 30: "find the program of etcd",
	} {
		e := snapshot.Entry{Slot: noon, Manifest: archive.Manifest{Plain: archive.Sum{Bytes: bytes}}}
		if err := a.verify(t.Context(), s, e); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("with %d bytes: %v", bytes, err)
		}
	}
}

// A lifecycle rule of a bucket may delete what is old.
func TestKeyMaterialIsStoredAgain(t *testing.T) {
	a, s := alone(t, 0)
	for range 2 {
		must(t, a.storeKeys(t.Context(), s))
		must(t, a.storeKeys(t.Context(), s))
		name, err := archive.KeysName("abcdef01")
		must(t, err)
		object, err := s.store.Get(t.Context(), name)
		must(t, err)
		must(t, object.Close())
		must(t, s.store.Delete(t.Context(), name))
	}
}

func TestWhatIsCopiedNext(t *testing.T) {
	b, c := peerStore{name: "b"}, peerStore{name: "c"}
	older := noon.Add(-time.Hour)
	offers := []offer{{b, older}, {b, noon}, {c, noon}, {c, older}}
	for name, test := range map[string]struct {
		uncopied []offer
		want     []offer
	}{
		"the newest":           {want: []offer{{b, noon}, {c, noon}, {b, older}, {c, older}}},
		"what hung comes last": {uncopied: []offer{{b, noon}}, want: []offer{{c, noon}, {b, older}, {c, older}, {b, noon}}},
		"all of them hung":     {uncopied: offers, want: []offer{{b, noon}, {c, noon}, {b, older}, {c, older}}},
	} {
		uncopied := map[string]bool{}
		for _, o := range test.uncopied {
			uncopied[o.String()] = true
		}
		if got := inOrder(offers, uncopied); !slices.EqualFunc(got, test.want, func(a, b offer) bool { return a.String() == b.String() }) {
			t.Errorf("%s: it is %v", name, got)
		}
	}
}
