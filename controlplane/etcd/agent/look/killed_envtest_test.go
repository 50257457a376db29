//go:build envtest

package look

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// three are the members of a cluster whose leaders forget entries soon: a member that was away gets a snapshot.
type three struct {
	t            testing.TB
	dirs         [3]directory
	peers        [3]string
	clients      [3]string
	running      [3]*exec.Cmd
	acknowledged atomic.Int64
}

func newThree(t testing.TB) *three {
	t.Helper()
	c := &three{t: t}
	for i := range c.dirs {
		c.dirs[i] = directory{filepath.Join(t.TempDir(), "data")}
		c.peers[i], c.clients[i] = "http://"+loopback.Free(t).String(), "http://"+loopback.Free(t).String()
	}
	for i := range c.dirs {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.running {
			c.kill(i)
		}
	})
	return c
}

func (c *three) start(i int) {
	c.t.Helper()
	var all []string
	for j, peer := range c.peers {
		all = append(all, fmt.Sprintf("m%d=%s", j, peer))
	}
	c.running[i] = exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), fmt.Sprintf("--name=m%d", i), "--data-dir="+c.dirs[i].path,
		"--listen-client-urls="+c.clients[i], "--advertise-client-urls="+c.clients[i], "--listen-peer-urls="+c.peers[i], "--initial-advertise-peer-urls="+c.peers[i],
		"--initial-cluster="+strings.Join(all, ","), "--snapshot-count=100", "--snapshot-catchup-entries=5", "--log-level=panic")
	must(c.t, c.running[i].Start())
}

func (c *three) kill(i int) {
	_ = c.running[i].Process.Kill()
	_ = c.running[i].Wait()
}

// write writes without end, as much as etcd takes.
func (c *three) write() {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.clients[:], Logger: zap.NewNop()})
	must(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	for range 4 {
		go func() {
			for c.t.Context().Err() == nil {
				if _, err := client.Put(c.t.Context(), fmt.Sprintf("key-%d", c.acknowledged.Load()%100), strings.Repeat("v", 3000)); err == nil {
					c.acknowledged.Add(1)
				}
			}
		}()
	}
}

// written waits until so many more writes were acknowledged.
func (c *three) written(more int64) {
	c.t.Helper()
	deadline := time.After(patience)
	for want := c.acknowledged.Load() + more; c.acknowledged.Load() < want; {
		select {
		case <-deadline:
			c.t.Fatal("etcd takes no writes")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A member that is replaced while it is well costs time and traffic, and one that is counted as gone may cost writes.
func TestAMemberThatWasKilledIsNeverSaidToBeDamaged(t *testing.T) {
	sample.OneIn(t, 4, "it kills an etcd again and again, for a minute")
	c := newThree(t)
	c.write()
	c.written(50)
	for round := range 6 {
		i := round % 3
		before := lookedAtKilled(t, c, i)
		// In every second round the others forget what this member needs.
		if round%2 == 0 {
			c.written(250)
		}
		c.start(i)
		c.written(60)
		after := lookedAtKilled(t, c, i)
		if after.Index < before.Index || after.Revision < before.Revision || after.MemberID != before.MemberID || after.ClusterID != before.ClusterID {
			t.Errorf("round %d: it found %v, and before %v", round, after, before)
		}
		c.start(i)
		c.written(20)
	}
}

func lookedAtKilled(t *testing.T, c *three, i int) facts.Facts {
	t.Helper()
	c.kill(i)
	f := lookedAt(t, c.dirs[i].path)
	if f.State != facts.Present || !f.Checked || f.Applied > f.Index {
		t.Fatalf("it found %#v", f)
	}
	return f
}
