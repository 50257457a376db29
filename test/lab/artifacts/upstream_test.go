package artifacts

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programsOf makes files of some names, each with its name in it.
func programsOf(t *testing.T, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("program "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestUpstreamHasTheLayoutsOfItsProjects(t *testing.T) {
	var plugins []string
	for _, plugin := range cniPlugins {
		plugins = append(plugins, filepath.Base(plugin))
	}
	cache := t.TempDir()
	folder, err := publishAll(cache, []publication{
		kubeletPublication("v1.36.3", programsOf(t, "kubelet")),
		containerdPublication("v2.4.2", programsOf(t, containerdPrograms...)),
		runcPublication("v1.5.2", programsOf(t, "runc")),
		cniPluginsPublication("v1.9.1", programsOf(t, plugins...)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file, digest string
		// named tells that the file of the digest has the file's name too.
		named   bool
		entries []string
	}{
		"kubelet": {
			file:   "dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet",
			digest: "dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet.sha256",
		},
		"containerd": {
			file:   "github.com/containerd/containerd/releases/download/v2.4.2/containerd-2.4.2-linux-amd64.tar.gz",
			digest: "github.com/containerd/containerd/releases/download/v2.4.2/containerd-2.4.2-linux-amd64.tar.gz.sha256sum",
			named:  true, entries: []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr"},
		},
		"runc": {
			file:   "github.com/opencontainers/runc/releases/download/v1.5.2/runc.amd64",
			digest: "github.com/opencontainers/runc/releases/download/v1.5.2/runc.sha256sum",
			named:  true,
		},
		"CNI plugins": {
			file:   "github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz",
			digest: "github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz.sha256",
			named:  true, entries: []string{"./bridge", "./host-local", "./loopback", "./portmap"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := FileDigest(filepath.Join(folder, test.file))
			if err != nil {
				t.Fatal(err)
			}
			if test.named {
				want += "  " + filepath.Base(test.file) + "\n"
			}
			digest, err := os.ReadFile(filepath.Join(folder, test.digest))
			if err != nil || string(digest) != want {
				t.Errorf("the file of the digest says %q, %v, want %q", digest, err, want)
			}
			if len(test.entries) == 0 {
				return
			}
			entries := entriesOf(t, filepath.Join(folder, test.file))
			for _, entry := range test.entries {
				if entries[entry] != "program "+filepath.Base(entry) {
					t.Errorf("%s has %q in it", entry, entries[entry])
				}
			}
		})
	}
	again, err := publishAll(cache, []publication{kubeletPublication("v1.36.3", programsOf(t, "kubelet"))})
	if err != nil || again == folder {
		t.Errorf("other files are published in the same folder %s, %v", again, err)
	}
}

// entriesOf are the files of an archive.
func entriesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	archive, entries := tar.NewReader(unzipped), map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil || header.Mode != 0o755 {
			t.Fatalf("%s has the mode %o: %v", header.Name, header.Mode, err)
		}
		entries[header.Name] = string(content)
	}
}

func TestABareSystemThatNobodyKnowsIsNamed(t *testing.T) {
	_, err := EnsureBare(t.Context(), t.TempDir(), "debian-1", func(string) {})
	if err == nil || !strings.Contains(err.Error(), `no bare host runs "debian-1": there are [debian-12 debian-13]`) {
		t.Errorf("the error is %v", err)
	}
	if systems := BareSystems(); !slices.Equal(systems, []string{"debian-12", "debian-13"}) {
		t.Errorf("there are %v", systems)
	}
}

func TestBareHostsHaveNoSoftwareOfWorkers(t *testing.T) {
	for _, name := range []string{"containerd", "runc", "containernetworking-plugins"} {
		if slices.Contains(barePackages, name) {
			t.Errorf("they have %s", name)
		}
	}
	if _, err := bareFiles.Open("rootfs/etc/containerd/config.toml"); err == nil {
		t.Error("they have containerd's configuration")
	}
}
