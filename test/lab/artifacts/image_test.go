package artifacts

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func writeProgram(t *testing.T, name string, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.Repeat([]byte{'x'}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImageHasProgramsThatAnyUserMayRun(t *testing.T) {
	// Sizes around the block of a tar archive: the end of a layer is written by hand.
	image := ProgramImage("registry.k8s.io/etcd:3.6.16-0", writeProgram(t, "etcd", 512), writeProgram(t, "etcdctl", 1), writeProgram(t, "etcdutl", 1025))
	image.User = "1000"
	archive := filepath.Join(t.TempDir(), "image.tar")
	out, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(image.Write(out), out.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := got.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "1000" || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/etcd"}) || !slices.Contains(c.Env, "PATH="+imagePath) {
		t.Errorf("unexpected configuration %+v", c)
	}
	files := extracted(t, mutate.Extract(got))
	for path, size := range map[string]int64{"usr/local/bin/etcd": 512, "usr/local/bin/etcdctl": 1, "usr/local/bin/etcdutl": 1025} {
		if f, ok := files[path]; !ok || f.Size != size || f.Mode&0o777 != 0o755 {
			t.Errorf("%s: there %v, %+v; want %d bytes, mode 755", path, ok, f, size)
		}
	}
	if f := files["tmp"]; f.Mode&0o7777 != 0o1777 {
		t.Errorf("/tmp has mode %o, want 1777", f.Mode)
	}
}

func extracted(t *testing.T, r io.ReadCloser) map[string]tar.Header {
	t.Helper()
	defer r.Close() //nolint:errcheck // only read
	files := map[string]tar.Header{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Clean(h.Name)] = *h
	}
}

func TestImageKeyFollowsItsInputs(t *testing.T) {
	base := ProgramImage("example.com/a:1", "/cache/bin/a-1/a")
	user, moved, renamed := base, base, base
	user.User = "1"
	moved.Files = []File{{Path: "/manager", Source: base.Files[0].Source}}
	renamed.Name = "example.com/a:2"
	for name, other := range map[string]Image{"user": user, "path": moved, "name": renamed} {
		if other.Key() == base.Key() {
			t.Errorf("an image with another %s has the same key", name)
		}
	}
}

func TestLinkTreeSharesFilesAndKeepsFolders(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	err := errors.Join(os.MkdirAll(filepath.Join(from, "a", "b"), 0o750), os.WriteFile(filepath.Join(from, "a", "b", "f"), []byte("x"), 0o640),
		os.Symlink("b/f", filepath.Join(from, "a", "l")), os.Chmod(filepath.Join(from, "a"), 0o777|os.ModeSticky))
	if err != nil {
		t.Fatal(err)
	}
	if err := linkTree(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	one, err1 := os.Stat(filepath.Join(from, "a", "b", "f"))
	two, err2 := os.Stat(filepath.Join(to, "a", "b", "f"))
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(one, two) {
		t.Errorf("the file is not shared: %v", err)
	}
	if link, err := os.Readlink(filepath.Join(to, "a", "l")); err != nil || link != "b/f" {
		t.Errorf("link %q, %v; want b/f", link, err)
	}
	info, err := os.Stat(filepath.Join(to, "a"))
	if err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("mode of the folder is %v, %v; want 1777", info.Mode(), err)
	}
}
