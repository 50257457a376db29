//go:build envtest

package etcd

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// three are real members of one etcd, which count the connections that are made to each.
type three struct {
	members  map[string]Address
	dialled  map[string]*atomic.Int32
	programs map[string]*exec.Cmd
}

func startThree(t *testing.T) *three {
	t.Helper()
	e := &three{members: map[string]Address{}, dialled: map[string]*atomic.Int32{}, programs: map[string]*exec.Cmd{}}
	var all []string
	for i := range 3 {
		name := fmt.Sprintf("m-%d", i)
		at := "http://" + loopback.Free(t).String()
		reached, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		dialled := &atomic.Int32{}
		e.members[name] = Address{Client: at, Peer: "http://" + loopback.Free(t).String(), Dial: func(ctx context.Context) (net.Conn, error) {
			dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, "tcp", reached.Host)
		}}
		e.dialled[name] = dialled
		all = append(all, name+"="+e.members[name].Peer)
	}
	for name, m := range e.members {
		program := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), "--name="+name, "--data-dir="+filepath.Join(t.TempDir(), "data"),
			"--listen-client-urls="+m.Client, "--advertise-client-urls="+m.Client, "--listen-peer-urls="+m.Peer, "--initial-advertise-peer-urls="+m.Peer,
			"--initial-cluster="+strings.Join(all, ","), "--log-level=error")
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		e.programs[name] = program
		t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	}
	return e
}

// until checks until what was found is as wanted.
func (e *three) until(t *testing.T, what string, wanted func(*Health) bool) *Health {
	t.Helper()
	var health *Health
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		health, err = Check(ctx, e.members, nil)
		return err == nil && wanted(health), err
	})
	if err != nil {
		t.Fatalf("%s: %v; the last is %+v", what, err, health)
	}
	return health
}

func TestACheckMakesOneConnectionToEachMemberAndFindsWhoIsAway(t *testing.T) {
	e := startThree(t)
	e.until(t, "all are well", func(h *Health) bool { return len(h.Problems()) == 0 })
	for _, dialled := range e.dialled {
		dialled.Store(0)
	}
	health, err := Check(t.Context(), e.members, nil)
	if err != nil || len(health.Problems()) > 0 || len(health.Members) != 3 || health.ClusterID == "" {
		t.Errorf("all are well, and it finds %+v, %v", health, err)
	}
	if _, err := Hashes(t.Context(), health, e.members, nil); err != nil {
		t.Error(err)
	}
	for name, dialled := range e.dialled {
		if got := dialled.Load(); got != 2 {
			t.Errorf("a check and a comparison made %d connections to %s", got, name)
		}
	}

	_ = e.programs["m-0"].Process.Kill()
	health = e.until(t, "one is away", func(h *Health) bool { return h.Err == nil && h.Members[0].Err != nil && len(h.Problems()) == 1 })
	if !health.Members[0].Listed || health.Members[0].Answered {
		t.Errorf("of the one that is away it says %+v", health.Members[0])
	}

	_ = e.programs["m-1"].Process.Kill()
	health = e.until(t, "two are away", func(h *Health) bool { return h.Err != nil && h.Members[2].Answered })
	if !health.Answered() {
		t.Error("one answers, and it says that none does")
	}
}
