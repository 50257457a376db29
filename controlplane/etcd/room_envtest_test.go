//go:build envtest

package etcd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// Kubelet asks a member's /livez, which reads its database and waits for the end of a defragmentation. So what is written anew
// must be done before kubelet gives the member up: package space bounds it.
func TestLivezWaitsForADefragmentation(t *testing.T) {
	sample.OneIn(t, 4, "it fills a database for a minute, to judge etcd and no code of this project")
	const values, size = 512, 1 << 20
	client, address := startEtcd(t)
	value := strings.Repeat("x", size)
	for i := range values {
		if _, err := client.Put(t.Context(), fmt.Sprintf("key-%d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	// The last values may still be on their way to the disk.
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		took, err := livez(ctx, address.Client)
		return took < time.Second, err
	}); err != nil {
		t.Fatalf("before, /livez does not answer within a second: %v", err)
	}

	done := make(chan error, 1)
	began := time.Now()
	go func() {
		done <- MakeRoom(t.Context(), space.Action{Kind: space.Defragment, Member: "one"}, map[string]Address{"one": address}, nil)
	}()
	var longest time.Duration
	next := time.NewTicker(time.Millisecond)
	defer next.Stop()
	for ended := false; !ended; {
		select {
		case err := <-done:
			if ended = true; err != nil {
				t.Fatal(err)
			}
		case <-next.C:
			took, err := livez(t.Context(), address.Client)
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, took)
		}
	}
	took := time.Since(began)
	t.Logf("%d MiB in %s, %.0f MiB/s; /livez took up to %s", values, took, values/took.Seconds(), longest)
	if longest < took/2 {
		t.Errorf("/livez answers during a defragmentation, after %s of %s: the bound of package space can go", longest, took)
	}
}

// A member drops old versions some time after etcd was compacted. A file that is written anew before has them yet.
func TestAFileIsWrittenAnewWhenItsMemberHasDroppedOldVersions(t *testing.T) {
	const versions, size = 50, 100 << 10
	client, address := startEtcd(t, "--compaction-batch-limit=5", "--compaction-sleep-interval=100ms")
	value := strings.Repeat("x", size)
	var revision int64
	for range versions {
		put, err := client.Put(t.Context(), "key", value)
		if err != nil {
			t.Fatal(err)
		}
		revision = put.Header.Revision
	}
	if _, err := client.Compact(t.Context(), revision); err != nil { // As a member does that another one told of it.
		t.Fatal(err)
	}
	if err := MakeRoom(t.Context(), space.Action{Kind: space.Defragment, Member: "one"}, map[string]Address{"one": address}, nil); err != nil {
		t.Fatal(err)
	}
	status, err := client.Status(t.Context(), address.Client)
	if err != nil || status.DbSize > versions*size/5 {
		t.Errorf("its file has %d bytes: %v", status.DbSize, err)
	}
}

// startEtcd starts an etcd with one member, one.
func startEtcd(t *testing.T, flags ...string) (*clientv3.Client, Address) {
	t.Helper()
	address := Address{Client: "http://" + loopback.Free(t).String(), Peer: "http://" + loopback.Free(t).String()}
	command := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), append(flags, "--name=one", "--data-dir="+filepath.Join(t.TempDir(), "data"),
		"--listen-client-urls="+address.Client, "--advertise-client-urls="+address.Client, "--listen-peer-urls="+address.Peer,
		"--initial-advertise-peer-urls="+address.Peer, "--initial-cluster=one="+address.Peer, "--log-level=error")...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address.Client}, Logger: zap.NewNop(), DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, address
}

func livez(ctx context.Context, at string) (time.Duration, error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/livez", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // Only its status counts.
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("/livez says %s", response.Status)
	}
	return time.Since(began), err
}
