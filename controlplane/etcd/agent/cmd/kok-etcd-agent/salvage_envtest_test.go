//go:build envtest

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/former"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// patience bounds each wait for etcd.
const patience = 2 * time.Minute

// request is a restore in place.
const request = "2026-03-04T05:06:07Z"

// etcds are the members of a cluster, one-0 and so on, and what clients were told.
type etcds struct {
	t       *testing.T
	peers   []string
	clients []string
	running []*exec.Cmd
	said    output.Buffer
	mutex   sync.Mutex
	// acknowledged are the values of keys that etcd has confirmed.
	acknowledged map[string]string
}

// newEtcds starts members in the folders 0, 1 and so on. They write nothing to their databases before they end, so that all is in
// their logs, as it is for a moment after each write.
func newEtcds(t *testing.T, members int) *etcds {
	t.Helper()
	c := &etcds{t: t, acknowledged: map[string]string{}}
	for range members {
		c.peers, c.clients = append(c.peers, "http://"+loopback.Free(t).String()), append(c.clients, "http://"+loopback.Free(t).String())
	}
	for i := range members {
		c.start(i, "new", members)
	}
	return c
}

// start starts a member of a cluster of so many.
func (c *etcds) start(i int, state string, members int) {
	c.t.Helper()
	var all []string
	for j, peer := range c.peers[:members] {
		all = append(all, fmt.Sprintf("one-%d=%s", j, peer))
	}
	etcd := exec.Command(etcdProgram(), fmt.Sprintf("--name=one-%d", i), "--data-dir="+dataOf(i), "--listen-client-urls="+c.clients[i], "--advertise-client-urls="+c.clients[i],
		"--listen-peer-urls="+c.peers[i], "--initial-advertise-peer-urls="+c.peers[i], "--initial-cluster="+strings.Join(all, ","), "--initial-cluster-state="+state,
		"--listen-metrics-urls=", "--log-level=error", "--backend-batch-interval=1h", "--unsafe-no-fsync")
	if members == 1 {
		etcd.Args = append(etcd.Args, "--heartbeat-interval=10", "--election-timeout=100") // It elects itself.
	}
	etcd.SysProcAttr, etcd.Stderr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, &c.said
	must(c.t, etcd.Start())
	c.running = append(c.running[:i:i], etcd)
	c.t.Cleanup(func() { kill(etcd) })
}

func kill(etcd *exec.Cmd) {
	_ = etcd.Process.Kill()
	_ = etcd.Wait()
}

// dataOf is the data directory of a member, in a volume of its own.
func dataOf(i int) string { return filepath.Join(fmt.Sprint(i), "data") }

func (c *etcds) client(endpoints ...string) *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: patience})
	must(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// leader is the member that leads.
func (c *etcds) leader() int {
	c.t.Helper()
	client := c.client(c.clients...)
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	_, err := client.Get(ctx, "a")
	if err != nil {
		c.t.Fatalf("etcd does not answer: %v\n%s", err, &c.said)
	}
	for i, endpoint := range c.clients {
		status, err := client.Status(ctx, endpoint)
		must(c.t, err)
		if status.Leader == status.Header.MemberId {
			return i
		}
	}
	c.t.Fatal("no member leads")
	return 0
}

// write has several writers write to the leader, until so many more writes are acknowledged, and then does something at once, while the
// others write on.
func (c *etcds) write(leader, writers, more int, then func()) {
	c.t.Helper()
	client := c.client(c.clients[leader])
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	var all sync.WaitGroup
	round := more
	for w := range writers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key, value := fmt.Sprintf("/registry/%d/%d/%d", round, w, n), strings.Repeat(fmt.Sprintf("%d,", n), 50)
				if _, err := client.Put(ctx, key, value); err != nil {
					continue // Nobody was told.
				}
				c.mutex.Lock()
				c.acknowledged[key] = value
				if more--; more == 0 {
					then()
					cancel()
				}
				c.mutex.Unlock()
			}
		})
	}
	all.Wait()
	cancel()
	if more > 0 {
		c.t.Fatalf("etcd takes no writes\n%s", &c.said)
	}
}

// lookAt is what there is in a data directory.
func lookAt(t *testing.T, dataDir string) facts.Facts {
	t.Helper()
	return (&options{dataDir: dataDir, timeout: patience}).look(t.Context())
}

// contentOf tells files apart by their sums and times.
func contentOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, folder)] = fmt.Sprintf("%s %s %x", info.Mode(), info.ModTime(), sha256.Sum256(data))
		return err
	}))
	return all
}

// instructed is the folder of the manager's Secret.
func instructed(t *testing.T, formerClusters []string, seed backup.Seed) string {
	t.Helper()
	folder := t.TempDir()
	writeSeed(t, folder, seed)
	file, err := backup.Encode(backup.Former{ClusterIDs: formerClusters})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, backup.FormerFile), file, 0o600))
	return folder
}

func prepareArgs(folder, dataDir, member string) []string {
	return []string{"prepare", "--hold", "--data-dir=" + dataDir, "--termination-log=log", "--seed-dir=" + folder, "--member=" + member}
}

func salvageArgs(folder, dataDir, member string) []string {
	return []string{"salvage", "--data-dir=" + dataDir, "--termination-log=log", "--config-dir=" + folder, "--member=" + member, "--etcd=" + etcdProgram()}
}

// survive has a survivor prepare and salvage.
func survive(t *testing.T, folder, dataDir, member string) (prepared, salvaged facts.Facts) {
	t.Helper()
	_, _, err := execute(t, prepareArgs(folder, dataDir, member)...)
	must(t, err)
	prepared = told(t, "log")
	_, _, err = execute(t, salvageArgs(folder, dataDir, member)...)
	must(t, err)
	return prepared, told(t, "log")
}

// lost are acknowledged writes that an etcd on a data directory does not have.
func (c *etcds) lost(dataDir, member, peer string) (lost []string, revision int64) {
	c.t.Helper()
	endpoint := "http://" + loopback.Free(c.t).String()
	etcd := exec.Command(etcdProgram(), "--name="+member, "--data-dir="+dataDir, "--listen-client-urls="+endpoint, "--advertise-client-urls="+endpoint, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster="+member+"="+peer, "--initial-cluster-state=existing", "--listen-metrics-urls=", "--log-level=error", "--unsafe-no-fsync",
		"--heartbeat-interval=10", "--election-timeout=100")
	etcd.SysProcAttr, etcd.Stderr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, &c.said
	must(c.t, etcd.Start())
	defer func() {
		_ = etcd.Process.Signal(syscall.SIGTERM)
		_ = etcd.Wait()
	}()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	client := c.client(endpoint)
	answer, err := client.Get(ctx, "/registry/", clientv3.WithPrefix())
	if err != nil {
		c.t.Fatalf("etcd does not answer: %v\n%s", err, &c.said)
	}
	there := map[string]string{}
	for _, kv := range answer.Kvs {
		there[string(kv.Key)] = string(kv.Value)
	}
	for key, value := range c.acknowledged {
		if there[key] != value {
			lost = append(lost, key)
		}
	}
	_, err = client.Put(ctx, "/new", "value")
	must(c.t, err)
	return lost, answer.Header.Revision
}

func TestNothingThatWasAcknowledgedIsLostWithTheLeaderAndAFollower(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	c := newEtcds(t, 3)
	leader := c.leader()
	followers := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader })
	c.write(leader, 4, 100, func() { kill(c.running[followers[0]]) })
	c.write(leader, 4, 200, func() {})
	// One writer alone: what it was told last is the last entry, and nothing comes after it with which the survivor would write down
	// that it is committed.
	c.write(leader, 1, 10, func() {
		kill(c.running[leader])
		kill(c.running[followers[1]])
	})
	must(t, os.RemoveAll(dataOf(leader)))
	first, second := lookAt(t, dataOf(followers[0])), lookAt(t, dataOf(followers[1]))
	if first.State != facts.Present || second.State != facts.Present || second.Term < first.Term || second.Index <= first.Index {
		t.Fatalf("the follower that was killed first has %s, and the other one %s", first, second)
	}
	if second.Commit >= second.Index || second.Applied >= second.Index {
		t.Fatalf("the survivor knows that all of its log is committed, so this shows nothing: %s", second)
	}
	t.Logf("the log ends at %d, and the survivor knows of %d", second.Index, second.Commit)

	survivor := followers[1]
	member, data, peer := fmt.Sprintf("one-%d", survivor), dataOf(survivor), "http://"+loopback.Free(t).String()
	folder := instructed(t, []string{"1", rebuild.Padded(second.ClusterID)}, backup.Seed{Restore: request, Survivor: true, Member: member, PeerURL: peer})
	before := contentOf(t, data)
	prepared, salvaged := survive(t, folder, data, member)
	if prepared.State != facts.Empty || prepared.Seed != "" {
		t.Errorf("prepare finds %s", prepared)
	}
	if salvaged.State != facts.Present || rebuild.Padded(salvaged.ClusterID) != rebuild.ClusterID(peer, request) || salvaged.Revision < 1_000_000_000 {
		t.Errorf("it is salvaged as %s", salvaged)
	}
	source := filepath.Join(fmt.Sprint(survivor), "former", rebuild.Padded(second.ClusterID)+"-1")
	if after := contentOf(t, source); !maps.Equal(after, before) {
		t.Errorf("the source has changed from %v to %v", before, after)
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) != 1 {
		t.Errorf("there are %v: %v", left, err)
	}
	lost, revision := c.lost(data, member, peer)
	if len(lost) != 0 || revision < 1_000_000_000 {
		t.Errorf("of %d acknowledged writes these are lost at revision %d: %v", len(c.acknowledged), revision, lost)
	}

	// The manager's files are still there when the pod restarts.
	now := contentOf(t, data)
	again, _ := survive(t, folder, data, member)
	if again.State != facts.Present || again.ClusterID != salvaged.ClusterID || !maps.Equal(contentOf(t, data), now) {
		t.Errorf("an old instruction makes %s of %s", again, salvaged)
	}
	// The other one has no such seed: what it has is put aside, and it waits for its manager.
	other := dataOf(followers[0])
	prepared, _ = survive(t, folder, other, "one-9")
	if newest, found, err := former.Newest(other); prepared.State != facts.Empty || !found || err != nil || newest.Name != rebuild.Padded(first.ClusterID) {
		t.Errorf("the other one finds %s and has %+v: %v", prepared, newest, err)
	}
}

// killedEtcd is a survivor that was the only member, and what it is told.
func killedEtcd(t *testing.T) (c *etcds, folder, peer string) {
	t.Helper()
	c = newEtcds(t, 1)
	c.write(c.leader(), 4, 50, func() { kill(c.running[0]) })
	found := lookAt(t, dataOf(0))
	peer = "http://" + loopback.Free(t).String()
	return c, instructed(t, []string{rebuild.Padded(found.ClusterID)}, backup.Seed{Restore: request, Survivor: true, Member: "one-0", PeerURL: peer}), peer
}

func TestSalvageThatIsKilledIsDoneAgain(t *testing.T) {
	s := reexec.NewStage(t)
	program := s.Cast(role)
	c, folder, peer := killedEtcd(t)
	_, _, err := execute(t, prepareArgs(folder, dataOf(0), "one-0")...)
	must(t, err)
	before := contentOf(t, filepath.Join("0", "former"))
	for _, stage := range sample.Of(t, 1, []string{"copy", "client:1", "snapshot.db", "data"}) {
		reached := filepath.Join(dataOf(0), ".kok-restore", stage)
		for killed := false; !killed; {
			must(t, os.RemoveAll(dataOf(0)))
			killed = killedAt(t, exec.Command(program, salvageArgs(folder, dataOf(0), "one-0")...), reached)
		}
		if found := lookAt(t, dataOf(0)); found.State != facts.Empty {
			t.Errorf("killed at %s it leaves %s", stage, found)
		}
		_, salvaged := survive(t, folder, dataOf(0), "one-0")
		left, err := os.ReadDir(dataOf(0))
		if err != nil || len(left) != 1 || rebuild.Padded(salvaged.ClusterID) != rebuild.ClusterID(peer, request) {
			t.Errorf("after it was killed at %s it ends with %s and %v: %v", stage, salvaged, left, err)
		}
		if lost, _ := c.lost(dataOf(0), "one-0", peer); len(lost) != 0 {
			t.Errorf("after it was killed at %s these are lost: %v", stage, lost)
		}
		if !maps.Equal(contentOf(t, filepath.Join("0", "former")), before) {
			t.Errorf("what was killed at %s has changed the source", stage)
		}
	}
}

// killedAt kills a program when it has made a file; false if it ended before that was seen.
func killedAt(t *testing.T, program *exec.Cmd, file string) bool {
	t.Helper()
	must(t, program.Start())
	ended := make(chan struct{})
	go func() {
		_ = program.Wait()
		close(ended)
	}()
	for {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			_ = program.Process.Kill()
			<-ended
			_, err := os.Lstat(file)
			return err == nil
		}
		select {
		case <-ended:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

func TestSalvageCutsOffATornTail(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	c, folder, peer := killedEtcd(t)
	logs, err := filepath.Glob(filepath.Join(dataOf(0), "member", "wal", "*.wal"))
	must(t, err)
	last := logs[len(logs)-1]
	content, err := os.ReadFile(last)
	must(t, err)
	end := len(strings.TrimRight(string(content), "\x00"))
	end += (8 - end%8) % 8
	// A record of 100 bytes, of which 20 were written.
	torn := slices.Concat(content[:end], []byte{100, 0, 0, 0, 0, 0, 0, 0}, []byte(strings.Repeat("x", 20)))
	must(t, os.WriteFile(last, torn, 0o600))
	if found := lookAt(t, dataOf(0)); !found.TornTail || found.State != facts.Present {
		t.Fatalf("it finds %s", found)
	}
	before := contentOf(t, dataOf(0))
	_, salvaged := survive(t, folder, dataOf(0), "one-0")
	newest, _, err := former.Newest(dataOf(0))
	if err != nil || salvaged.State != facts.Present || salvaged.TornTail || !maps.Equal(contentOf(t, newest.Path), before) {
		t.Errorf("it is salvaged as %s from %+v: %v", salvaged, newest, err)
	}
	if lost, _ := c.lost(dataOf(0), "one-0", peer); len(lost) != 0 {
		t.Errorf("these are lost: %v", lost)
	}
}

// A learner has the log of a voter, and etcd alone would end without one.
func TestALearnerMayBeTheSurvivor(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	c := newEtcds(t, 1)
	c.leader()
	c.peers, c.clients = append(c.peers, "http://"+loopback.Free(t).String()), append(c.clients, "http://"+loopback.Free(t).String())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.client(c.clients[0]).MemberAddAsLearner(ctx, c.peers[1:])
	must(t, err)
	c.start(1, "existing", 2)
	c.write(0, 4, 50, func() {})
	learner := c.client(c.clients[1])
	voter, err := c.client(c.clients[0]).Status(ctx, c.clients[0])
	must(t, err)
	for status := (*clientv3.StatusResponse)(nil); status == nil || status.RaftAppliedIndex < voter.RaftIndex; {
		if status, err = learner.Status(ctx, c.clients[1]); err != nil {
			t.Fatalf("the learner does not follow: %v\n%s", err, &c.said)
		}
	}
	kill(c.running[0])
	kill(c.running[1])
	peer := "http://" + loopback.Free(t).String()
	folder := instructed(t, []string{rebuild.Padded(lookAt(t, dataOf(1)).ClusterID)}, backup.Seed{Restore: request, Survivor: true, Member: "one-1", PeerURL: peer})
	if _, salvaged := survive(t, folder, dataOf(1), "one-1"); salvaged.State != facts.Present {
		t.Errorf("it is salvaged as %s", salvaged)
	}
	if lost, _ := c.lost(dataOf(1), "one-1", peer); len(lost) != 0 {
		t.Errorf("these are lost: %v", lost)
	}
}

// A person decides which of members is right whose data differ.
func TestSalvageRefusesACorruptCluster(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	c := newEtcds(t, 1)
	client := c.client(c.clients[0])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := client.Put(ctx, "a", "b")
	must(t, err)
	_, err = etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_CORRUPT, MemberID: 1,
	})
	must(t, err)
	kill(c.running[0])
	folder := instructed(t, []string{rebuild.Padded(lookAt(t, dataOf(0)).ClusterID)}, backup.Seed{Restore: request, Survivor: true, Member: "one-0", PeerURL: "http://127.0.0.1:2380"})
	_, _, err = execute(t, prepareArgs(folder, dataOf(0), "one-0")...)
	must(t, err)
	_, _, err = execute(t, salvageArgs(folder, dataOf(0), "one-0")...)
	if f := told(t, "log"); err == nil || f.State != facts.Empty || !strings.Contains(f.Seed, "alarm CORRUPT") {
		t.Errorf("it tells %s and ends with %v", f, err)
	}
}

func TestSalvageWithoutASourceLeavesTheDirectoryEmpty(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	c := newEtcds(t, 1)
	c.write(c.leader(), 4, 5, func() { kill(c.running[0]) })
	id := rebuild.Padded(lookAt(t, dataOf(0)).ClusterID)
	seed := backup.Seed{Restore: request, Survivor: true, Member: "one-0", PeerURL: "http://127.0.0.1:2380"}
	put := func(data, name string) {
		t.Helper()
		must(t, os.CopyFS(data, os.DirFS(dataOf(0))))
		_, err := former.PutAside(data, name)
		must(t, err)
	}
	for name, test := range map[string]struct {
		before func(data string)
		args   []string
		says   string
	}{
		"nothing was put aside":            {func(string) {}, nil, "there are no data to salvage"},
		"only what had no data":            {func(data string) { put(data, former.WithoutData) }, nil, "there are no data to salvage"},
		"the last data were unreadable":    {func(data string) { put(data, id); put(data, former.Unreadable) }, nil, "are not of a cluster that can be salvaged"},
		"the last data are of nobody":      {func(data string) { put(data, "00000000000000aa") }, nil, "are not of a cluster that can be salvaged"},
		"the data are of another cluster":  {func(data string) { put(data, "00000000000000bb") }, nil, "are not those of a member that was well"},
		"the program of etcd is not there": {func(data string) { put(data, id) }, []string{"--etcd=/none"}, "--etcd: "},
		"etcd ends at once":                {func(data string) { put(data, id) }, []string{"--etcd=/bin/false"}, "start etcd on the copy"},
		"there is no time":                 {func(data string) { put(data, id) }, []string{"--timeout=1ns"}, ""},
	} {
		data := filepath.Join(t.TempDir(), "data")
		must(t, os.Mkdir(data, 0o700))
		test.before(data)
		folder := instructed(t, []string{id, "bb"}, seed)
		_, _, err := execute(t, append(salvageArgs(folder, data, "one-0"), test.args...)...)
		f := told(t, "log")
		if err == nil || f.State != facts.Empty || !strings.Contains(f.Seed, test.says) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: it tells %s and ends with %v", name, f, err)
		}
		if left, err := os.ReadDir(data); len(left) != 0 || err != nil {
			t.Errorf("%s: left are %v: %v", name, left, err)
		}
	}
	for name, test := range map[string]struct{ folder, member string }{
		"another member": {instructed(t, []string{id}, seed), "one-1"},
		"no folder":      {"/none", "one-0"},
		"a snapshot":     {instructed(t, []string{id}, backup.Seed{Restore: request, Slot: time.Unix(1, 0), Member: "one-0", PeerURL: "x"}), "one-0"},
	} {
		must(t, os.RemoveAll("log"))
		if _, _, err := execute(t, salvageArgs(test.folder, filepath.Join(t.TempDir(), "data"), test.member)...); err != nil {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if _, err := os.Stat("log"); err == nil {
			t.Errorf("%s: it tells something", name)
		}
	}
}

func TestARestoreInPlacePutsFormerDataAside(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	storeDir, manager, seed := seeded(t)
	c := newEtcds(t, 1)
	leader := c.leader()
	id := rebuild.Padded(lookAt(t, dataOf(0)).ClusterID) // It is known although the database is in use.
	seed.Restore = request
	writeSeed(t, manager, seed)
	file, err := backup.Encode(backup.Former{ClusterIDs: []string{id}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(manager, backup.FormerFile), file, 0o600))
	prepare := func() facts.Facts {
		t.Helper()
		_, _, err := execute(t, append(prepareArgs(manager, dataOf(0), "one-0"), "--seed-store-dir="+storeDir)...)
		must(t, err)
		return told(t, "log")
	}
	_, _, err = execute(t, append(prepareArgs(manager, dataOf(0), "one-0"), "--seed-store-dir="+storeDir)...)
	if f := told(t, "log"); !errors.Is(err, errMayBeFormer) || f.Reason != facts.InUse || !strings.Contains(f.Message, errMayBeFormer.Error()) {
		t.Errorf("while etcd runs it finds %s and ends with %v", f, err)
	}
	c.write(leader, 4, 5, func() { kill(c.running[0]) })
	want := rebuild.ClusterID(seed.PeerURL, request)
	steps := []struct {
		name, aside string
		before      func()
	}{
		{"data of a former cluster", id, func() {}},
		{"data that cannot be read", former.Unreadable, func() {
			must(t, os.RemoveAll(filepath.Join(dataOf(0), "member")))
			must(t, os.MkdirAll(filepath.Join(dataOf(0), "member", "wal"), 0o700))
			must(t, os.WriteFile(filepath.Join(dataOf(0), "member", "wal", "0000000000000000-0000000000000000.wal"), []byte("no log"), 0o600))
		}},
		{"what an etcd left that nobody answered", former.WithoutData, func() {
			must(t, os.RemoveAll(filepath.Join(dataOf(0), "member")))
			c.peers, c.clients = append(c.peers[:1], "http://"+loopback.Free(t).String()), append(c.clients[:1], "")
			c.start(0, "existing", 2)
			_ = c.running[0].Wait() // It ends by itself.
		}},
		{"what an etcd left that never had a leader", former.WithoutData, func() {
			must(t, os.RemoveAll(filepath.Join(dataOf(0), "member")))
			c.start(0, "new", 2)
			deadline := time.After(patience)
			for found := (facts.Facts{}); found.Index < 2; {
				select {
				case <-deadline:
					t.Fatalf("etcd does not start\n%s", &c.said)
				case <-time.After(5 * time.Millisecond):
				}
				copied := filepath.Join(t.TempDir(), "data") // The database is in use.
				if err := os.CopyFS(copied, os.DirFS(dataOf(0))); err == nil {
					found = lookAt(t, copied)
				}
			}
			kill(c.running[0])
		}},
	}
	for i, step := range steps {
		step.before()
		before := contentOf(t, dataOf(0))
		found := prepare()
		if found.State != facts.Present || rebuild.Padded(found.ClusterID) != want || found.Revision < 1_000_000_000 {
			t.Errorf("%s: it finds %s\n%s", step.name, found, &c.said)
		}
		aside := filepath.Join("0", "former", fmt.Sprintf("%s-%d", step.aside, i+1))
		if after := contentOf(t, aside); !maps.Equal(after, before) {
			t.Errorf("%s: there was %v, and there is %v", step.name, before, after)
		}
		// The data are of the new cluster: the instruction is an old one.
		now := contentOf(t, dataOf(0))
		if again := prepare(); again.ClusterID != found.ClusterID || !maps.Equal(contentOf(t, dataOf(0)), now) {
			t.Errorf("%s: the next time it finds %s", step.name, again)
		}
	}
	starts(t, dataOf(0), seed.PeerURL)
}
