//go:build bench

package backup

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/noise"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/s3server"
)

const (
	// databaseBytes is how much is written, in values as large as larger objects of Kubernetes.
	databaseBytes = 1 << 30
	valueBytes    = 32 << 10
	writers       = 16
	// rate is the number of writes and of reads a second through each member that is measured, and idle how long without a snapshot.
	rate = 50
	idle = 30 * time.Second
	// starting bounds the wait for etcd.
	starting = 2 * time.Minute
)

// Three members, a follower of which a snapshot is taken into an S3 server, all with real disks and on this machine alone.
func TestASnapshotOfAGibibyte(t *testing.T) {
	members := startEtcd(t)
	fill(t, members)
	follower, leader := followerAndLeader(t, members)
	agent := newAgent(t, follower)

	before := measure(t, follower, leader, func() { pass(t, idle) })
	took, during := timed(func() users {
		return measure(t, follower, leader, func() { agent.run(t, "snapshot", agent.taking...) })
	})
	verified, verifying := timed(func() users {
		return measure(t, follower, leader, func() { agent.run(t, "verify", agent.trying...) })
	})

	all := []figures.Figure{
		figures.New("snapshot_seconds_1gib", seconds(took), "s until it is stored"),
		figures.New("snapshot_verify_seconds_1gib", seconds(verified), "s until a trial has verified it"),
	}
	for _, of := range []struct {
		name string
		part func(users) noise.Reads
	}{
		{"snapshot_p99_ratio", func(u users) noise.Reads { return u.follower }},
		{"snapshot_others_p99_ratio", func(u users) noise.Reads { return u.leader }},
	} {
		without, taking, trying := p99(of.part(before)), p99(of.part(during)), p99(of.part(verifying))
		t.Logf("%s: p99 of reads and writes is %s without a snapshot, %s while it is taken, %s while it is verified", of.name, without, taking, trying)
		all = append(all,
			figures.New(of.name, fmt.Sprintf("%.1f", taking.Seconds()/without.Seconds()), "times, while it is taken"),
			figures.New(strings.Replace(of.name, "p99", "verify_p99", 1), fmt.Sprintf("%.1f", trying.Seconds()/without.Seconds()), "times, while it is verified"))
	}
	for _, f := range all {
		fmt.Println(f)
	}
	t.Chdir("../../..") // Figures are kept in the top folder.
	must(t, figures.Write("bench-backup", all))
}

// timed is how long something takes, and what it gives.
func timed(do func() users) (time.Duration, users) {
	began := time.Now()
	found := do()
	return time.Since(began), found
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

func p99(of noise.Reads) time.Duration { return of.Quantile(0.99) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets a time pass that is measured.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// startEtcd starts three members, and returns a client of each.
func startEtcd(t *testing.T) []*clientv3.Client {
	t.Helper()
	var peers, all []string
	for i := range 3 {
		peers = append(peers, "http://"+loopback.Free(t).String())
		all = append(all, fmt.Sprintf("one-%d=%s", i, peers[i]))
	}
	var clients []*clientv3.Client
	for i, peer := range peers {
		endpoint := "http://" + loopback.Free(t).String()
		command := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), "--name="+fmt.Sprintf("one-%d", i), "--data-dir="+t.TempDir(),
			"--listen-client-urls="+endpoint, "--advertise-client-urls="+endpoint, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
			"--initial-cluster="+strings.Join(all, ","), "--quota-backend-bytes=8589934592", "--log-level=error")
		start(t, command)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialTimeout: starting})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	ctx, cancel := context.WithTimeout(t.Context(), starting)
	defer cancel()
	for _, client := range clients {
		_, err := client.Put(ctx, "a", "b")
		must(t, err)
	}
	return clients
}

// start starts a program that ends with the test.
func start(t *testing.T, command *exec.Cmd) {
	t.Helper()
	said := &output.Buffer{}
	command.Stdout, command.Stderr = said, said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", command.Path, said)
		}
	})
}

// fill writes the database. Values differ, and compress about as objects of Kubernetes do.
func fill(t *testing.T, members []*clientv3.Client) {
	t.Helper()
	t.Logf("write %d MiB", databaseBytes>>20)
	keys := make(chan int)
	var all sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		all.Go(func() {
			for key := range keys {
				if errs[w] == nil {
					_, errs[w] = members[w%len(members)].Put(t.Context(), name(key), value(key))
				}
			}
		})
	}
	for key := range databaseBytes / valueBytes {
		keys <- key
	}
	close(keys)
	all.Wait()
	for _, err := range errs {
		must(t, err)
	}
}

func name(key int) string { return fmt.Sprintf("/registry/configmaps/default/%06d", key) }

// value is text of which no part is like another one.
func value(key int) string {
	var text strings.Builder
	for line := 0; text.Len() < valueBytes; line++ {
		fmt.Fprintf(&text, "line %d of the object %d is the number %d\n", line, key, (key*7919+line)*104729)
	}
	return text.String()[:valueBytes]
}

// followerAndLeader are clients of a member that follows and of the one that leads.
func followerAndLeader(t *testing.T, members []*clientv3.Client) (follower, leader *clientv3.Client) {
	t.Helper()
	for _, client := range members {
		status, err := client.Status(t.Context(), client.Endpoints()[0])
		must(t, err)
		if status.Leader == status.Header.MemberId {
			leader = client
		} else {
			follower = client
		}
	}
	if leader == nil {
		t.Fatal("nobody leads")
	}
	return follower, leader
}

// users are what those see who read and write through a member.
type users struct{ follower, leader noise.Reads }

// measure reads and writes through both members while something is done.
func measure(t *testing.T, follower, leader *clientv3.Client, do func()) (found users) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { found.follower = use(ctx, t, follower) })
	all.Go(func() { found.leader = use(ctx, t, leader) })
	do()
	cancel()
	all.Wait()
	return found
}

// use reads and writes in turns through a member, and is never answered with an error.
func use(ctx context.Context, t *testing.T, client *clientv3.Client) (found noise.Reads) {
	var lock sync.Mutex
	load.Pace(ctx, 2*rate, func(i int) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), starting)
		defer cancel()
		began := time.Now()
		var err error
		if i%2 == 0 {
			_, err = client.Get(asking, name(i))
		} else {
			_, err = client.Put(asking, name(i), value(i))
		}
		took := time.Since(began)
		lock.Lock()
		defer lock.Unlock()
		if err != nil {
			t.Errorf("a request to %s failed: %v", client.Endpoints()[0], err)
		}
		found.Times = append(found.Times, took)
	})
	return found
}

// agent is the program beside a member.
type agent struct {
	program string
	// taking and trying are its arguments.
	taking, trying []string
}

// newAgent makes the files that the agent reads, and a bucket for what it writes.
func newAgent(t *testing.T, member *clientv3.Client) agent {
	t.Helper()
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	identity, err := age.GenerateX25519Identity()
	must(t, err)
	server := s3server.Start(t, "", "")
	at, err := url.Parse(server.Endpoint)
	must(t, err)
	credentials := filepath.Dir(file("s3/accessKeyID", s3server.AccessKey))
	file("s3/secretAccessKey", s3server.SecretKey)
	store := []string{"--s3-endpoint=" + at.String(), "--s3-bucket=" + s3server.Bucket, "--s3-prefix=team/one", "--s3-credentials=" + credentials,
		"--hmac-key-file=" + file("hmac", "a key of manifests, which has 32 bytes and more")}
	etcd := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd")
	return agent{
		program: os.Getenv("KOK_ETCD_AGENT"),
		taking:  append([]string{"--endpoint=" + member.Endpoints()[0], "--cluster=team/one", "--recipients-file=" + file("recipients", identity.Recipient().String())}, store...),
		trying:  append([]string{"--identity-file=" + file("identity", identity.String()), "--scratch=" + t.TempDir(), "--etcd=" + etcd}, store...),
	}
}

func (a agent) run(t *testing.T, command string, args ...string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), a.program, append([]string{command}, args...)...).CombinedOutput()
	t.Logf("%s: %s", command, strings.TrimSpace(string(said)))
	must(t, err)
}
