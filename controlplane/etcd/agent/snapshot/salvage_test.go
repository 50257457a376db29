package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// Without room nothing is begun.
func TestSalvageTellsHowMuchRoomIsMissing(t *testing.T) {
	survivor, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	for name, size := range map[string]int64{"wal/0000000000000000-0000000000000000.wal": 1 << 20, "snap/db": 1 << 42, "snap/db.tmp123": 1 << 42, "wal/0.tmp": 1 << 42} {
		path := filepath.Join(survivor, "member", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Truncate(path, size)) // It takes no room itself.
	}
	s := Survivor{DataDir: survivor, Etcd: "/none"}
	need, err := s.NeedBytes()
	if err != nil || need != 2<<42+1<<20+backup.LogBytes {
		t.Errorf("%d bytes are needed: %v", need, err)
	}
	_, err = s.Salvage(t.Context(), Target{DataDir: data, Name: "one", PeerURL: "http://127.0.0.1:2380", Token: "x"})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("bytes of room, and %d are needed to salvage", need)) || !strings.Contains(err.Error(), "make room for") {
		t.Errorf("it says %v", err)
	}
	if left, err := os.ReadDir(data); len(left) != 0 || err != nil {
		t.Errorf("left are %v: %v", left, err)
	}
}
