//go:build root

package shell

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheShellAloneHasItsHosts(t *testing.T) {
	before, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("192.0.2.1 dl.example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := started(t, Options{Hosts: file})
	result, err := s.Run(t.Context(), "getent hosts dl.example.com")
	if err != nil || result.Status != 0 || !strings.HasPrefix(result.Output, "192.0.2.1 ") {
		t.Errorf("%+v, %v", result, err)
	}
	if after, err := os.ReadFile("/etc/hosts"); err != nil || string(after) != string(before) {
		t.Errorf("the machine's own file is another now, %v:\n%s", err, after)
	}
}
