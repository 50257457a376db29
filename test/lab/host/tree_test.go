package host

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

func TestCloneTreeSharesContentButNoDatabase(t *testing.T) {
	g := NewWithT(t)
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	for path, content := range map[string]string{"blobs/sha256/a": "layer", "meta.db": "database", "snapshots/1/fs/bin/program": "program"} {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(from, path)), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(from, path), []byte(content), 0o640)).To(Succeed())
	}
	g.Expect(os.Chmod(filepath.Join(from, "snapshots"), 0o700)).To(Succeed())
	g.Expect(os.Symlink("program", filepath.Join(from, "snapshots/1/fs/bin/link"))).To(Succeed())

	g.Expect(cloneTree(from, to)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(to, "meta.db"), []byte("changed"), 0o640)).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(from, "meta.db"))).To(Equal([]byte("database")))
	g.Expect(os.Readlink(filepath.Join(to, "snapshots/1/fs/bin/link"))).To(Equal("program"))
	var a, b unix.Stat_t
	g.Expect(unix.Stat(filepath.Join(from, "blobs/sha256/a"), &a)).To(Succeed())
	g.Expect(unix.Stat(filepath.Join(to, "blobs/sha256/a"), &b)).To(Succeed())
	g.Expect(b.Ino).To(Equal(a.Ino), "the layer was copied")
	info, err := os.Stat(filepath.Join(to, "snapshots"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o700)))
}
