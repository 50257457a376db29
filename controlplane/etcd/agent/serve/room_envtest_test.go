//go:build envtest

package serve

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

func TestAgentsMakeRoomInAFullEtcdWhileTheManagerIsAway(t *testing.T) {
	const quota, value = "16777216", 100 << 10
	w := newWorld(t, 3, backup.Config{}, "--quota-backend-bytes="+quota)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var err error
	for err == nil {
		_, err = w.client.Put(ctx, "filler", strings.Repeat("x", value))
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("it is not full: %v", err)
	}
	for _, m := range w.members {
		if code, _, err := ask(t, w.ca.client(manager), http.MethodGet, m.agent+backup.ReportPath, ""); err != nil || code != http.StatusOK {
			t.Fatalf("%s answers %d: %v", m.name, code, err)
		}
		if said := m.said.String(); strings.Contains(said, "made room") {
			t.Errorf("%s did while the manager asked:\n%s", m.name, said)
		}
	}

	// How many pages are free in a full file depends on how many writes etcd commits at once: there may be enough of them.
	enoughFree := !slices.ContainsFunc(w.space(ctx).Members, func(m space.Member) bool { return m.InUse*10 >= m.Quota*9 })

	w.ahead.Add(int64(aloneAfter))
	for deadline := time.After(patience); ; {
		if _, err = w.client.Put(ctx, "a", "d"); err == nil {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("it is full for ever: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	did := map[string]int{}
	for _, m := range w.members {
		for _, step := range []string{"step=Compact", "step=Defragment", "step=Disarm"} {
			did[step] += strings.Count(m.said.String(), step)
		}
		if strings.Count(m.said.String(), "step=Defragment") == 0 {
			t.Errorf("%s did not write its file anew:\n%s", m.name, m.said)
		}
	}
	if did["step=Compact"] == 0 && !enoughFree || did["step=Disarm"] == 0 {
		t.Errorf("they did %v, and free pages were enough: %t", did, enoughFree)
	}
	found, err := w.client.Get(ctx, "filler")
	must(t, err)
	if len(found.Kvs) != 1 || len(found.Kvs[0].Value) != value {
		t.Errorf("the newest version is lost: %d keys", len(found.Kvs))
	}
}

// space is what a decision on room depends on.
func (w *world) space(ctx context.Context) space.State {
	w.Helper()
	members := map[string]etcd.Address{}
	for _, m := range w.members {
		members[m.name] = etcd.Address{Client: m.endpoint}
	}
	health, err := etcd.Check(ctx, members, w.ca.client(manager))
	must(w.T, err)
	must(w.T, health.Err)
	return health.Space()
}
