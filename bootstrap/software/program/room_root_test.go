//go:build root

package program

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func TestAMachineWithoutRoomIsLeftAsItWas(t *testing.T) {
	m := newMachine(t)
	if err := os.MkdirAll(m.root+optDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", m.root+optDir, "tmpfs", 0, "size=258m,mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(m.root+optDir, 0); err != nil {
			t.Error(err)
		}
	})
	before := m.snapshot(optDir)
	document := m.document("v1")
	large := m.publish(make([]byte, 16<<20))
	large.Unpack = document.Components[0].Variants[0].Archive.Unpack
	document.Components[0].Variants[0].Archive = large
	result := software.ResultOf(m.install(document))
	if result.Reason != software.NoRoom || result.Component != "kubelet" || !strings.Contains(result.Message, "the disk of /opt/kok-software/downloads/") || !strings.Contains(result.Message, "16.0 MiB are needed") {
		t.Errorf("%+v", result)
	}
	if diff := cmp.Diff(before, m.snapshot(optDir)); diff != "" {
		t.Error(diff)
	}
}
