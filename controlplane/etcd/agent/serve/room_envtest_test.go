//go:build envtest

package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

func TestAgentsMakeRoomInAFullEtcdWhileTheManagerIsAway(t *testing.T) {
	const quota, value = int64(16 << 20), 100 << 10
	w := newWorld(t, 3, backup.Config{}, fmt.Sprintf("--quota-backend-bytes=%d", quota))
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
	// Which files were too large differs: a member that wrote more at once needs fewer pages.
	rewritten := 0
	for _, m := range w.members {
		rewritten += strings.Count(m.said.String(), "step=Defragment")
		status, err := w.client.Status(ctx, m.endpoint)
		must(t, err)
		if status.DbSize >= quota/100*90 {
			t.Errorf("%s has a file of %d bytes yet:\n%s", m.name, status.DbSize, m.said)
		}
	}
	if rewritten == 0 {
		t.Error("nobody wrote a file anew")
	}
	found, err := w.client.Get(ctx, "filler")
	must(t, err)
	if len(found.Kvs) != 1 || len(found.Kvs[0].Value) != value {
		t.Errorf("the newest version is lost: %d keys", len(found.Kvs))
	}
}
