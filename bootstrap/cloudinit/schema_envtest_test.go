//go:build envtest

package cloudinit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCloudInitTakesTheDocuments asks the real cloud-init, which the machine must have.
func TestCloudInitTakesTheDocuments(t *testing.T) {
	program, err := exec.LookPath("cloud-init")
	if err != nil {
		t.Fatalf("this test needs cloud-init (Debian package cloud-init): %v", err)
	}
	for _, version := range supported {
		for name, in := range map[string]Input{"minimal": minimal(version), "full": full(version)} {
			t.Run(version+"/"+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "user-data")
				if err := os.WriteFile(file, render(t, in), 0o600); err != nil {
					t.Fatal(err)
				}
				if output, err := exec.CommandContext(t.Context(), program, "schema", "--config-file", file).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, output)
				}
			})
		}
	}
}
