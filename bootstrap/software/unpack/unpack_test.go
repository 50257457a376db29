package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func file(name, content string) entry { return entry{name: name, content: content, mode: 0o644} }

func archive(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)), Linkname: e.link}
		if e.kind == 0 {
			header.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpacked are the files below the folder, with their modes, after an attempt to unpack.
func unpacked(t *testing.T, download []byte, limits Limits, items ...bootstrapv1.SoftwareUnpack) (map[string]string, []string, error) {
	t.Helper()
	d := &disk.Disk{Root: t.TempDir()}
	if err := os.WriteFile(d.Place("/download"), download, 0o600); err != nil {
		t.Fatal(err)
	}
	paths, err := Unpack(d, "/download", "/staged", items, limits)
	found := map[string]string{}
	walkErr := filepath.WalkDir(d.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path == d.Place("/download") {
			return err
		}
		name := strings.TrimPrefix(path, d.Root)
		info, err := e.Info()
		if err != nil {
			return err
		}
		read := os.ReadFile
		if info.Mode()&fs.ModeSymlink != 0 {
			read = func(name string) ([]byte, error) {
				target, err := os.Readlink(name)
				return []byte(target), err
			}
		}
		content, err := read(path)
		found[name] = info.Mode().String() + " " + string(content)
		return err
	})
	if walkErr != nil {
		t.Fatal(walkErr)
	}
	slices.Sort(paths)
	return found, paths, err
}

func item(from, to, mode string) bootstrapv1.SoftwareUnpack {
	return bootstrapv1.SoftwareUnpack{From: from, To: to, Mode: mode}
}

func TestUnpack(t *testing.T) {
	tools := []entry{
		{name: "./", kind: tar.TypeDir, mode: 0o755}, {name: "./bin/", kind: tar.TypeDir, mode: 0o755},
		{name: "./bin/a", content: "A", mode: 0o4755}, {name: "bin/sub/b", content: "B", mode: 0o600}, {name: "README", content: "x", mode: 0o644},
		{name: "bin/c", kind: tar.TypeSymlink, link: "a"}, {name: "bin/d", kind: tar.TypeLink, link: "bin/a"}, {name: "dev", kind: tar.TypeChar},
	}
	for name, c := range map[string]struct {
		entries []entry
		items   []bootstrapv1.SoftwareUnpack
		want    map[string]string
		paths   string
		reason  string
	}{
		"a file": {entries: tools, items: []bootstrapv1.SoftwareUnpack{item("README", "/usr/share/readme", "")},
			want: map[string]string{"/staged/usr/share/readme": "-rw-r--r-- x"}, paths: "/usr/share/readme"},
		"a file without its setuid bit": {entries: tools, items: []bootstrapv1.SoftwareUnpack{item("bin/a", "/usr/bin/", "")},
			want: map[string]string{"/staged/usr/bin/a": "-rwxr-xr-x A"}, paths: "/usr/bin/a"},
		"a file with a mode of the document": {entries: tools, items: []bootstrapv1.SoftwareUnpack{item("./bin/sub/b", "/b", "0750")},
			want: map[string]string{"/staged/b": "-rwxr-x--- B"}, paths: "/b"},
		"a file twice": {entries: tools, items: []bootstrapv1.SoftwareUnpack{item("README", "/a", ""), item("README", "/b", "")},
			want: map[string]string{"/staged/a": "-rw-r--r-- x", "/staged/b": "-rw-r--r-- x"}, paths: "/a /b"},
		"a folder with its links": {entries: tools, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/opt/", "")},
			want: map[string]string{"/staged/opt/a": "-rwxr-xr-x A", "/staged/opt/sub/b": "-rw------- B", "/staged/opt/c": "Lrwxrwxrwx a", "/staged/opt/d": "-rwxr-xr-x A"}, paths: "/opt/a /opt/c /opt/d /opt/sub/b"},
		"everything": {entries: []entry{file("a", "A"), file("b/c", "C")}, items: []bootstrapv1.SoftwareUnpack{item("./", "/opt/", "")},
			want: map[string]string{"/staged/opt/a": "-rw-r--r-- A", "/staged/opt/b/c": "-rw-r--r-- C"}, paths: "/opt/a /opt/b/c"},
		"links of libraries": {entries: []entry{
			file("usr/lib/libx.so.1", "X"), {name: "usr/lib/libx.so", kind: tar.TypeSymlink, link: "libx.so.1"},
			{name: "usr/bin/libx.so.1", kind: tar.TypeSymlink, link: "../lib/libx.so.1"}, {name: "usr/bin/.libs/x", kind: tar.TypeSymlink, link: "./../../lib/libx.so"},
		}, items: []bootstrapv1.SoftwareUnpack{item("usr/", "/opt/", "")},
			want: map[string]string{"/staged/opt/lib/libx.so.1": "-rw-r--r-- X", "/staged/opt/lib/libx.so": "Lrwxrwxrwx libx.so.1", "/staged/opt/bin/libx.so.1": "Lrwxrwxrwx ../lib/libx.so.1",
				"/staged/opt/bin/.libs/x": "Lrwxrwxrwx ./../../lib/libx.so"}, paths: "/opt/bin/.libs/x /opt/bin/libx.so.1 /opt/lib/libx.so /opt/lib/libx.so.1"},
		"what it does not have is refused": {entries: []entry{file("a", ""), file("b/c", "")}, items: []bootstrapv1.SoftwareUnpack{item("bin/kubelet", "/k", "")},
			reason: "the archive has no bin/kubelet. It has a, b/c"},
		"a folder that it does not have is refused": {entries: []entry{file("binary", "")}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/k/", "")},
			reason: "the archive has no bin/. It has binary"},
		"a link alone is refused": {entries: tools, items: []bootstrapv1.SoftwareUnpack{item("bin/c", "/c", "")}, reason: "bin/c is a link to a in the archive; name that"},
		"a path with .. is refused": {entries: []entry{file("bin/../../x", "")}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "has a path with .."},
		"a path with .. is refused where it is not wanted": {entries: []entry{file("../x", "")}, items: []bootstrapv1.SoftwareUnpack{item("a", "/b", "")},
			reason: "has a path with .."},
		"an absolute link is refused": {entries: []entry{{name: "bin/x", kind: tar.TypeSymlink, link: "/etc/shadow"}}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "a link to /etc/shadow, which is not in bin/"},
		"a link that leaves the folder is refused": {entries: []entry{{name: "bin/x", kind: tar.TypeSymlink, link: "../lib/y"}}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "a link to ../lib/y"},
		"a link that leaves the archive is refused": {entries: []entry{{name: "x", kind: tar.TypeSymlink, link: "../y"}}, items: []bootstrapv1.SoftwareUnpack{item("./", "/b/", "")},
			reason: "a link to ../y"},
		"a file through a link is refused": {entries: []entry{{name: "bin/x", kind: tar.TypeSymlink, link: "y"}, file("bin/x/z", "evil")}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "unpack bin/x/z: the archive has a link in the place of one of its folders"},
		"a link that goes down and up is refused": {entries: []entry{file("bin/x", ""), {name: "bin/y", kind: tar.TypeSymlink, link: "./sub/../x"}}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "a link to ./sub/../x, which has .. after a name"},
		"a hard link to a link is refused": {entries: []entry{file("bin/x", ""), {name: "bin/y", kind: tar.TypeSymlink, link: "x"}, {name: "bin/z", kind: tar.TypeLink, link: "bin/y"}}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "a hard link to bin/y, which is not a file"},
		"a hard link to what is not unpacked is refused": {entries: []entry{file("a", ""), {name: "bin/x", kind: tar.TypeLink, link: "a"}}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "it is a link to a, which is not unpacked before it"},
		"a device is refused": {entries: []entry{{name: "bin/x", kind: tar.TypeBlock}}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "neither a file nor a link"},
		"a file that is there twice is refused": {entries: []entry{file("bin/x", "1"), file("bin/x", "2")}, items: []bootstrapv1.SoftwareUnpack{item("bin/", "/b/", "")},
			reason: "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			found, paths, err := unpacked(t, archive(t, c.entries), DefaultLimits, c.items...)
			if c.reason != "" {
				if err == nil || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || strings.Join(paths, " ") != c.paths || len(found) != len(c.want) {
				t.Errorf("%q, %v: %v", paths, found, err)
			}
			for path, want := range c.want {
				if found[path] != want {
					t.Errorf("%s is %q, want %q", path, found[path], want)
				}
			}
		})
	}
}

func TestALinkThroughALinkCannotLeaveTheFolder(t *testing.T) {
	entries := []entry{
		{name: "bin/d1/d2/l", kind: tar.TypeSymlink, link: ".."}, file("bin/d1/x", ""),
		// By its name it stays in bin, and where the first link leads it would not.
		{name: "bin/d1/d2/l/l2", kind: tar.TypeSymlink, link: "../../../x"},
	}
	if found, _, err := unpacked(t, archive(t, entries), DefaultLimits, item("bin/", "/b/", "")); err == nil || found["/staged/b/d1/l2"] != "" {
		t.Errorf("%v: %v", found, err)
	}
}

func TestAHardLinkCannotCopyAFileOfTheMachine(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	// By its name, m leads up from the deepest folder, and stays in bin. Where l leads, it goes up from bin/q instead, to the root.
	const deep = 19
	folder := "bin" + strings.Repeat("/d", deep) + "/"
	entries := []entry{
		file("bin/q/f", ""),
		{name: folder + "l", kind: tar.TypeSymlink, link: strings.Repeat("../", deep) + "q"},
		{name: folder + "m", kind: tar.TypeSymlink, link: "l" + strings.Repeat("/..", deep+1) + secret},
		{name: "bin/h", kind: tar.TypeLink, link: folder + "m"},
	}
	found, _, err := unpacked(t, archive(t, entries), DefaultLimits, item("bin/", "/b/", ""))
	if _, copied := found["/staged/b/h"]; err == nil || copied {
		t.Errorf("%v: %v", found, err)
	}
}

func TestADownloadThatIsTheFile(t *testing.T) {
	found, paths, err := unpacked(t, []byte("x"), DefaultLimits, item("", "/usr/bin/a", ""), item("", "/usr/bin/b", "0700"))
	if err != nil || !slices.Equal(paths, []string{"/usr/bin/a", "/usr/bin/b"}) || found["/staged/usr/bin/a"] != "-rwxr-xr-x x" || found["/staged/usr/bin/b"] != "-rwx------ x" {
		t.Errorf("%q, %v: %v", paths, found, err)
	}
}

func TestCompressedArchives(t *testing.T) {
	plain := archive(t, []entry{file("a", "A")})
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, writeErr := w.Write(plain)
	encoder, err := zstd.NewWriter(nil)
	if err := errors.Join(err, writeErr, w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		download []byte
		reason   string
	}{
		"by gzip":                  {zipped.Bytes(), ""},
		"by zstd":                  {encoder.EncodeAll(plain, nil), ""},
		"cut short":                {zipped.Bytes()[:zipped.Len()/2], "read the archive"},
		"that are none":            {bytes.Repeat([]byte("x"), 5000), "it must be a tar archive"},
		"that have nothing":        {nil, "read the archive"},
		"of gzip without anything": {[]byte{0x1f, 0x8b, 0, 0}, "read the archive"},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, err := unpacked(t, c.download, DefaultLimits, item("a", "/a", ""))
			if c.reason == "" && (err != nil || found["/staged/a"] != "-rw-r--r-- A") || c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("%v: %v", found, err)
			}
		})
	}
}

func TestAnArchiveThatIsTooLargeIsRefused(t *testing.T) {
	download := archive(t, []entry{file("a", strings.Repeat("A", 100_000)), file("b", ""), file("c", "C")})
	for name, c := range map[string]struct {
		limits Limits
		fails  bool
	}{
		"by its bytes, of which few are wanted": {Limits{Bytes: 50_000, Entries: 3}, true},
		"by its entries":                        {Limits{Bytes: 1 << 20, Entries: 2}, true},
		"but not one within the limits":         {Limits{Bytes: 1 << 20, Entries: 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := unpacked(t, download, c.limits, item("c", "/c", "")); errors.Is(err, errTooLarge) != c.fails || !c.fails && err != nil {
				t.Error(err)
			}
		})
	}
}
