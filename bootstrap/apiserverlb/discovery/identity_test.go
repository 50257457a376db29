package discovery

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
)

// kubeconfigOf writes a kubeconfig beside the files that its user names, and returns its path.
func kubeconfigOf(t *testing.T, directory, user string) string {
	t.Helper()
	path := filepath.Join(directory, "kubelet.conf")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: %s}]}`, user)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheClientCertificateOfAKubeconfig(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	certificate, key := authority.Client("system:node:w1", time.Hour)
	const files = "{client-certificate: current.pem, client-key: current.pem}"
	for name, test := range map[string]struct {
		user, file string
		// problem is empty when there is none, and shown whether there is a certificate then.
		problem string
		shown   bool
	}{
		"in a file, as kubelet keeps it": {user: files, file: string(slices.Concat(certificate, key)), shown: true},
		"in the kubeconfig, as an admin has it": {
			user: fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}", base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key)), shown: true,
		},
		"a token":                {user: "{token: t}"},
		"a file that is missing": {user: files, problem: "current.pem"},
		"a file without a key":   {user: files, file: string(certificate), problem: "client certificate"},
		"half a file":            {user: files, file: string(certificate[:100]), problem: "client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			if test.file != "" {
				if err := os.WriteFile(filepath.Join(directory, "current.pem"), []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ClientCertificate(kubeconfigOf(t, directory, test.user))
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Fatalf("error %v", err)
			}
			if (got != nil) != test.shown {
				t.Fatalf("got %v", got)
			}
			if got != nil && got.Leaf.Subject.CommonName != "system:node:w1" {
				t.Errorf("the certificate is of %s", got.Leaf.Subject)
			}
		})
	}
}

func TestARotatedClientCertificateIsReadAnew(t *testing.T) {
	authority, directory := apiservertest.NewAuthority(t), t.TempDir()
	path := kubeconfigOf(t, directory, "{client-certificate: current.pem, client-key: current.pem}")
	for _, name := range []string{"system:node:before", "system:node:after"} {
		authority.ClientFile(filepath.Join(directory, "current.pem"), name)
		got, err := ClientCertificate(path)
		if err != nil || got.Leaf.Subject.CommonName != name {
			t.Errorf("got %+v, %v, expected %s", got, err, name)
		}
	}
}

func TestAKubeconfigThatIsMissingHasNoClientCertificate(t *testing.T) {
	if got, err := ClientCertificate(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Errorf("got %v", got)
	}
}
