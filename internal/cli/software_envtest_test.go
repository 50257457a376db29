//go:build envtest

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// upstreams is a mirror with TLS and a password. Each file holds its own path, and its digest is where its project publishes it.
func upstreams(t *testing.T) (address, authority string) {
	t.Helper()
	digest := func(file string) string {
		sum := sha256.Sum256([]byte(file))
		return hex.EncodeToString(sum[:])
	}
	// sums are files with the digests of others beside them.
	sums := map[string][]string{
		"SHA256SUMS":     {"kok-software-linux-amd64", "kok-software-linux-arm64", "kok-apiserver-lb-linux-amd64", "kok-apiserver-lb-linux-arm64"},
		"runc.sha256sum": {"runc.amd64", "runc.arm64"},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "reader" || password != "pa55" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		file := r.URL.Path
		text := file
		if names := sums[path.Base(file)]; names != nil {
			text = ""
			for _, name := range names {
				text += digest(path.Join(path.Dir(file), name)) + "  " + name + "\n"
			}
		} else if of := strings.TrimSuffix(strings.TrimSuffix(file, "sum"), ".sha256"); of != file {
			text = digest(of) + "  " + path.Base(of) + "\n"
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	authority = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL + "/up", authority
}

func TestSoftwareIsDescribedByWhatUpstreamsPublish(t *testing.T) {
	s := newSite(t)
	address, authority := upstreams(t)
	add := func(more ...string) []string {
		return append([]string{"software", "add", "v1.36.3", "--release", "v0.2.0", "--from", address, "--ca-file", authority, "--secret", "mirror", "--exclusive", "--architectures", "amd64,arm64"}, more...)
	}
	s.expect(2, []string{`read Secret mirror with the password of the mirror`}, add()...)
	secret := &corev1.Secret{ObjectMeta: s.named("mirror"), Type: corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": "reader", "password": "pa55"}}
	s.create(secret)
	s.expect(2, []string{`Secret mirror lacks the label kok.cluster.x-k8s.io/for-tenants`}, add()...)
	secret.Labels = map[string]string{giveaway.Label: giveaway.Allowed}
	if err := environment.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	printed := &bootstrapv1.KOKSoftware{}
	if err := yaml.UnmarshalStrict([]byte(s.expect(0, nil, add("--dry-run")...)), printed); err != nil || printed.Name != "software-v1.36.3" {
		t.Errorf("%+v, %v", printed, err)
	}
	if s.has("software-v1.36.3", &bootstrapv1.KOKSoftware{}) {
		t.Fatal("a dry run made it")
	}
	out := s.expect(0, []string{"kubelet for arm64: 0 MiB", "SHA-256 as the mirror says", "KOKSoftware " + s.namespace + "/software-v1.36.3 is created"}, add()...)
	if strings.Contains(out, "pa55") {
		t.Error("the password is told")
	}
	made := &bootstrapv1.KOKSoftware{}
	if !s.has("software-v1.36.3", made) {
		t.Fatal("it is not there")
	}
	if len(made.Spec.Installers) != 2 || len(made.Spec.Components) != 5 || len(made.Spec.Mirrors) != 2 {
		t.Errorf("%+v", made.Spec)
	}
	for _, component := range made.Spec.Components {
		if len(component.Variants) != 2 {
			t.Errorf("%s: %+v", component.Name, component.Variants)
		}
	}
	if mirror := made.Spec.Mirrors[0]; mirror.Prefix != "https://dl.k8s.io/" || mirror.Endpoints[0].URL != address+"/dl.k8s.io/" || mirror.Endpoints[0].SecretRef.Name != "mirror" || !*mirror.Exclusive {
		t.Errorf("%+v", mirror)
	}

	s.expect(0, []string{"is there already"}, add()...)
	s.expect(2, []string{"describes other software, which cannot change; choose another --name"}, add("--runc", "v1.5.1")...)
	s.expect(0, []string{"is created"}, add("--runc", "v1.5.1", "--name", "software-2-v1.36.3")...)
}

func TestWhatCannotBeDescribedIsSaid(t *testing.T) {
	s := newSite(t)
	address, _ := upstreams(t)
	for says, arguments := range map[string][]string{
		"is not a Kubernetes version":                    {"1.36.3"},
		"--release:":                                     {"v1.36.3", "--release", "latest"},
		"name it by --from":                              {"v1.36.3", "--release", "v0.2.0", "--exclusive"},
		"use amd64 or arm64":                             {"v1.36.3", "--release", "v0.2.0", "--architectures", "riscv64"},
		"without a password; name that by --secret":      {"v1.36.3", "--release", "v0.2.0", "--from", "https://a:b@mirror.example"},
		"kok-software for amd64":                         {"v1.36.3", "--release", "v0.2.0", "--from", address, "--exclusive"},
		"--ca-file has no certificate; name a file":      {"v1.36.3", "--release", "v0.2.0", "--from", address, "--ca-file", "/etc/hostname"},
		"accepts 1 arg(s), received 0; kok software add": {},
	} {
		s.expect(2, []string{says}, append([]string{"software", "add"}, arguments...)...)
	}
}
