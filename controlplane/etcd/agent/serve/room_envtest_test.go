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
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

const (
	// fullQuota is the quota of each member of a full etcd, and fillerSize the size of the values in it, in bytes.
	fullQuota, fillerSize = 16 << 20, 100 << 10
)

// newFullWorld has an etcd of three members that is full of values at these keys.
func newFullWorld(ctx context.Context, t *testing.T, key func(i int) string) *world {
	t.Helper()
	w := newWorld(t, 3, backup.Config{}, fmt.Sprintf("--quota-backend-bytes=%d", fullQuota))
	var err error
	for i := 0; err == nil; i++ {
		_, err = w.client.Put(ctx, key(i), strings.Repeat("x", fillerSize))
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("it is not full: %v", err)
	}
	return w
}

func TestAgentsMakeRoomInAFullEtcdWhileTheManagerIsAway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	w := newFullWorld(ctx, t, func(int) string { return "filler" })
	for _, m := range w.members {
		if code, _, err := ask(t, w.ca.client(manager), http.MethodGet, m.agent+backup.ReportPath, ""); err != nil || code != http.StatusOK {
			t.Fatalf("%s answers %d: %v", m.name, code, err)
		}
		if said := m.said.String(); strings.Contains(said, "made room") {
			t.Errorf("%s did while the manager asked:\n%s", m.name, said)
		}
	}

	w.ahead.Add(int64(aloneAfter))
	w.untilWritten(ctx)
	// Which files were too large differs: a member that wrote more at once needs fewer pages.
	rewritten := 0
	for _, m := range w.members {
		rewritten += strings.Count(m.said.String(), "step=Defragment")
		status, err := w.client.Status(ctx, m.endpoint)
		must(t, err)
		if status.DbSize >= fullQuota/100*90 {
			t.Errorf("%s has a file of %d bytes yet:\n%s", m.name, status.DbSize, m.said)
		}
	}
	if rewritten == 0 {
		t.Error("nobody wrote a file anew")
	}
	found, err := w.client.Get(ctx, "filler")
	must(t, err)
	if len(found.Kvs) != 1 || len(found.Kvs[0].Value) != fillerSize {
		t.Errorf("the newest version is lost: %d keys", len(found.Kvs))
	}
}

// What an agent found out about its file before the deletion says nothing of it after.
func TestAgentsMakeRoomOnceKeysOfAFullEtcdAreDeleted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	w := newFullWorld(ctx, t, func(i int) string { return fmt.Sprintf("filler/%d", i) })
	w.ahead.Add(int64(aloneAfter))
	w.said("step=Defragment", "what is next is not this member's to do")
	_, err := w.client.Delete(ctx, "filler/", clientv3.WithPrefix())
	must(t, err)
	w.untilWritten(ctx)
}

// said waits until an agent says one thing, and then another.
func (w *world) said(first, then string) {
	w.Helper()
	for deadline := time.After(patience); ; {
		for _, m := range w.members {
			if _, after, found := strings.Cut(m.said.String(), first); found && strings.Contains(after, then) {
				return
			}
		}
		select {
		case <-deadline:
			w.Fatalf("nobody says %q, and then %q", first, then)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// untilWritten waits until etcd takes a write.
func (w *world) untilWritten(ctx context.Context) {
	w.Helper()
	for deadline := time.After(patience); ; {
		_, err := w.client.Put(ctx, "a", "d")
		if err == nil {
			return
		}
		select {
		case <-deadline:
			w.Fatalf("it is full for ever: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
