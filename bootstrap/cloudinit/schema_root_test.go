//go:build root

package cloudinit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// TestCloudInitTakesTheDocuments asks the real cloud-init of the Debian system that the lab's hosts run.
func TestCloudInitTakesTheDocuments(t *testing.T) {
	cache, err := artifacts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root, err := artifacts.EnsureDebian(t.Context(), cache, func(step string) { t.Log(step) })
	if err != nil {
		t.Fatalf("install the Debian system that has cloud-init: %v", err)
	}
	for _, version := range supported {
		for name, in := range map[string]Input{"minimal": minimal(version), "full": full(version)} {
			t.Run(version+"/"+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "user-data")
				if err := os.WriteFile(file, render(t, in), 0o600); err != nil {
					t.Fatal(err)
				}
				if output, err := checkSchema(t, root, file); err != nil {
					t.Errorf("%v: %s", err, output)
				}
			})
		}
	}
	t.Run("and refuses another", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "user-data")
		if err := os.WriteFile(file, []byte("#cloud-config\nruncmd: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if output, err := checkSchema(t, root, file); err == nil {
			t.Errorf("it takes what is wrong: %s", output)
		}
	})
}

func checkSchema(t *testing.T, root, file string) ([]byte, error) {
	t.Helper()
	const inside = "/run/user-data"
	cmd := exec.CommandContext(t.Context(), "systemd-nspawn", "--quiet", "--directory="+root, "--read-only", "--register=no",
		"--keep-unit", "--pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--bind-ro="+file+":"+inside,
		"cloud-init", "schema", "--config-file", inside)
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes")
	return cmd.CombinedOutput()
}
