package configuration

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
		if ca, err := os.ReadFile(c.CertificateAuthorityFile); err != nil || string(ca) != "certificates" {
			t.Errorf("the CA file holds %q, %v", ca, err)
		}
		if !strings.HasPrefix(c.StateFile, directory) {
			t.Errorf("the state file is %s", c.StateFile)
		}
	}
}

// A running program reads the file of the CA's certificates for each new connection of a probe.
func TestTheCAOfAKubeconfigIsReplacedAsAWholeAndOnlyWhenItDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		there string
		stays bool
	}{
		"the same":                      {"certificates", true},
		"another":                       {"others", false},
		"what a full disk left of them": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := OfKubeconfig(kubeconfig(t, "https://10.0.0.1:6443", "certificates"), "", "", t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			folder := filepath.Dir(c.CertificateAuthorityFile)
			if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(c.CertificateAuthorityFile, []byte(test.there), 0o600)); err != nil {
				t.Fatal(err)
			}
			reader, err := os.Open(c.CertificateAuthorityFile)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = reader.Close() }()
			// Who is not root cannot write into such a folder. For root the time of the folder shows a write.
			past := time.Unix(1, 0)
			if err := os.Chtimes(folder, past, past); err != nil {
				t.Fatal(err)
			}
			if test.stays {
				if err := os.Chmod(folder, 0o500); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
			}
			if err := c.Prepare(); err != nil {
				t.Fatal(err)
			}
			if ca, err := os.ReadFile(c.CertificateAuthorityFile); err != nil || string(ca) != "certificates" {
				t.Errorf("the file holds %q, %v", ca, err)
			}
			if former, err := io.ReadAll(reader); err != nil || string(former) != test.there {
				t.Errorf("who read it before has %q, %v", former, err)
			}
			if info, err := os.Stat(folder); err != nil || info.ModTime().Equal(past) != test.stays {
				t.Errorf("the folder was written to at %v, %v", info.ModTime(), err)
			}
			before, _ := reader.Stat()
			after, err := os.Stat(c.CertificateAuthorityFile)
			if err != nil || os.SameFile(before, after) != test.stays {
				t.Errorf("the file stays: %t, want %t: %v", !test.stays, test.stays, err)
			}
			left, err := os.ReadDir(folder)
			if err != nil || len(left) != 1 {
				t.Errorf("the folder has %v, %v", left, err)
			}
		})
	}
}

func TestACAThatCannotBeWrittenIsTold(t *testing.T) {
	place := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(place, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := OfKubeconfig(kubeconfig(t, "https://10.0.0.1:6443", "certificates"), "", "", place)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(); err == nil || !strings.Contains(err.Error(), "CA's certificates") {
		t.Errorf("got %v", err)
	}
}

// written is a kubeconfig as kok kubeconfig writes it: for clients, and with the API servers behind it.
func written(t *testing.T, server string, others ...string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig(t, server, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	for i, other := range others {
		config.Clusters[fmt.Sprintf("c-%d", i)] = &clientcmdapi.Cluster{Server: other, CertificateAuthorityData: []byte("ca")}
	}
	config.Clusters["another"] = &clientcmdapi.Cluster{Server: "https://192.0.2.9:6443", CertificateAuthorityData: []byte("another ca")}
	path := filepath.Join(t.TempDir(), "blue.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKubeconfigOfKOKSaysWhereToListen(t *testing.T) {
	for name, test := range map[string]struct {
		path, listen           string
		wantListen, wantStatus string
		wantSeeds              []string
	}{
		"at its own server": {
			path:       written(t, "https://127.0.0.1:6445", "https://192.0.2.1:20000", "https://192.0.2.2:20000"),
			wantListen: "127.0.0.1:6445", wantStatus: "127.0.0.1:6446", wantSeeds: []string{"192.0.2.1:20000", "192.0.2.2:20000"},
		},
		"unless the command line does": {
			path: written(t, "https://127.0.0.1:6445", "https://192.0.2.1:20000"), listen: "127.0.0.1:7000",
			wantListen: "127.0.0.1:7000", wantStatus: "127.0.0.1:6446", wantSeeds: []string{"192.0.2.1:20000"},
		},
		"and not when its server is elsewhere": {
			path:       written(t, "https://192.0.2.1:20000", "https://192.0.2.2:20000"),
			wantListen: DefaultListenAddress, wantStatus: DefaultStatusAddress, wantSeeds: []string{"192.0.2.1:20000"},
		},
		"and not when its clusters have other CAs": {
			path:       written(t, "https://127.0.0.1:7443"),
			wantListen: DefaultListenAddress, wantStatus: DefaultStatusAddress, wantSeeds: []string{"127.0.0.1:7443"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := OfKubeconfig(test.path, test.listen, "", t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if c.ListenAddress != test.wantListen || c.StatusAddress != test.wantStatus || !slices.Equal(c.SeedBackends, test.wantSeeds) {
				t.Errorf("got %+v", c)
			}
		})
	}
	if _, err := OfKubeconfig(written(t, "https://127.0.0.1:6445", "http://192.0.2.1"), "", "", t.TempDir()); err == nil || !strings.Contains(err.Error(), "cluster c-0: server") {
		t.Errorf("of an API server without TLS: %v", err)
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
