package configuration

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func kubeconfig(t *testing.T, server, ca string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.conf")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %q}}], users: [{name: u, user: {token: t}}]}`, server, base64.StdEncoding.EncodeToString([]byte(ca)))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKubeconfigIsEnough(t *testing.T) {
	directory := t.TempDir()
	for server, seed := range map[string]string{
		"https://10.0.0.1:20001":    "10.0.0.1:20001",
		"https://blue.example":      "blue.example:443",
		"https://[fd00::1]:6443":    "[fd00::1]:6443",
		"https://127.0.0.1:7443/":   "127.0.0.1:7443",
		"https://blue.example/path": "blue.example:443",
	} {
		path := kubeconfig(t, server, "certificates")
		c, err := OfKubeconfig(path, "", "127.0.0.1:7444", directory)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.SeedBackends, []string{seed}) || c.KubeconfigFile != path || c.ListenAddress != DefaultListenAddress || c.StatusAddress != "127.0.0.1:7444" {
			t.Errorf("of %s: %+v", server, c)
		}
		if ca, err := os.ReadFile(c.CertificateAuthorityFile); err != nil || string(ca) != "certificates" {
			t.Errorf("the CA file holds %q, %v", ca, err)
		}
		if !strings.HasPrefix(c.StateFile, directory) {
			t.Errorf("the state file is %s", c.StateFile)
		}
	}
}

func TestClustersOfAnAdminDoNotShareAList(t *testing.T) {
	directory := t.TempDir()
	one, err := OfKubeconfig(kubeconfig(t, "https://10.0.0.1:6443", "one"), "", "", directory)
	if err != nil {
		t.Fatal(err)
	}
	other, err := OfKubeconfig(kubeconfig(t, "https://10.0.0.1:6443", "other"), "", "", directory)
	if err != nil {
		t.Fatal(err)
	}
	if one.StateFile == other.StateFile {
		t.Error("two clusters keep their lists in one file")
	}
}

func TestAKubeconfigThatCannotServeIsTold(t *testing.T) {
	for name, test := range map[string]struct{ server, message string }{
		"without TLS":            {"http://10.0.0.1:8080", "is not an https URL"},
		"of this program itself": {"https://127.0.0.1:6443", "own address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OfKubeconfig(kubeconfig(t, test.server, "ca"), "", "", t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := OfKubeconfig(filepath.Join(t.TempDir(), "missing"), "", "", t.TempDir()); err == nil {
		t.Error("no error for a missing kubeconfig")
	}
}
