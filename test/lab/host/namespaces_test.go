//go:build lab

package host

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

func TestTheFolderOfNamespacesIsSharedOnce(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir() + "/netns"
	g.Expect(prepareNamespaces(folder)).To(Succeed())
	t.Cleanup(func() { g.Expect(unix.Unmount(folder, unix.MNT_DETACH)).To(Succeed()) })
	g.Expect(prepareNamespaces(folder)).To(Succeed())
	g.Expect(mountsOn(g, folder)).To(ConsistOf(ContainSubstring(" shared:")))
}

// A lab that was made before the folder was prepared can still be taken down.
func TestNamespacesThatAreThereAreNotCovered(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	there := folder + "/there"
	g.Expect(os.WriteFile(there, nil, 0o600)).To(Succeed())
	g.Expect(unix.Mount("/proc/self/ns/net", there, "", unix.MS_BIND, "")).To(Succeed())
	t.Cleanup(func() { g.Expect(unix.Unmount(there, unix.MNT_DETACH)).To(Succeed()) })
	g.Expect(prepareNamespaces(folder)).To(Succeed())
	g.Expect(mountsOn(g, folder)).To(BeEmpty())
}

// mountsOn gives the lines of mountinfo, proc_pid_mountinfo(5), of the mounts on a folder.
func mountsOn(g *WithT, folder string) []string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == folder {
			found = append(found, line)
		}
	}
	return found
}
