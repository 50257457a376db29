package mirror

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

const kubernetes = "v1.36.3"

var kubeletURL = KubeletURL(kubernetes)

// small is content of the right names; it is no program.
func small(t *testing.T) Content {
	t.Helper()
	upstream, release := t.TempDir(), t.TempDir()
	for _, path := range []string{
		kubeletURL,
		"https://github.com/opencontainers/runc/releases/download/v1.2.3/runc.amd64",
		"https://github.com/containerd/containerd/releases/download/v2.3.4/containerd-2.3.4-linux-amd64.tar.gz",
		"https://github.com/containernetworking/plugins/releases/download/v1.4.5/cni-plugins-linux-amd64-v1.4.5.tgz",
	} {
		write(t, filepath.Join(upstream, PathOf(path)), strings.Repeat(path+"\n", 10000))
	}
	programs := t.TempDir()
	write(t, filepath.Join(programs, installer), "the installer")
	write(t, filepath.Join(programs, balancer), "the load balancer")
	if err := WriteRelease(release, programs); err != nil {
		t.Fatal(err)
	}
	return Content{
		Upstream: &artifacts.Upstream{Folder: upstream, Runc: "v1.2.3", Containerd: "v2.3.4", CNIPlugins: "v1.4.5"},
		Release:  release, ReleaseVersion: "v0.1.0",
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// local starts a mirror on this machine's loopback.
func local(t *testing.T, content Content) *Mirror {
	t.Helper()
	serving, authority := certificate(t)
	m, err := start(t.Context(), loopback.Listen(t), loopback.Listen(t), serving, authority, content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func certificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func ask(t *testing.T, m *Mirror, url string, change func(*http.Request)) (int, []byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(request)
	}
	client := *m.client
	client.Timeout = 2 * time.Second // A mirror that stalls does so for longer.
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, content, err
}

func TestMirror(t *testing.T) {
	m := local(t, small(t))
	whole, err := os.ReadFile(filepath.Join(m.content.Upstream.Folder, PathOf(kubeletURL)))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		fault Fault
		// scope is the beginning of the paths that the fault is for; the file's own if empty.
		scope string
		as    func(*http.Request)
		// status and content that come; there is an error if fails is set.
		status  int
		content []byte
		fails   bool
	}{
		"gives a file at the path that upstream publishes it at": {status: 200, content: whole},
		"ends early, half way": {fault: EndEarly, status: 200, content: whole[:len(whole)/2], fails: true},
		"stalls half way":      {fault: Stall, status: 200, content: whole[:len(whole)/2], fails: true},
		"lies, with a file of the same length": {fault: Lie, status: 200, content: func() []byte {
			other := bytes.Clone(whole)
			for i := range other {
				other[i] ^= 1
			}
			return other
		}()},
		"is away":                                      {fault: Away, fails: true},
		"asks who has no password":                     {fault: AskPassword, status: 401, content: []byte("a user and a password are needed\n")},
		"gives to who has the password":                {fault: AskPassword, as: func(r *http.Request) { r.SetBasicAuth(User, Password) }, status: 200, content: whole},
		"behaves where the fault is for another path":  {fault: Away, scope: "/github.com/", status: 200, content: whole},
		"misbehaves for all of a server when it is to": {fault: Away, scope: "/dl.k8s.io/", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.fault != "" {
				scope := test.scope
				if scope == "" {
					scope = PathOf(kubeletURL)
				}
				defer m.Misbehave(scope, test.fault)()
			}
			status, content, err := ask(t, m, m.at(kubeletURL), test.as)
			if status != test.status || !bytes.Equal(content, test.content) || (err != nil) != test.fails {
				t.Errorf("it answered %d with %d bytes, and the error %v", status, len(content), err)
			}
		})
	}
	before := m.Asked("/dl.k8s.io/")
	if status, content, err := ask(t, m, m.at(kubeletURL), nil); status != 200 || !bytes.Equal(content, whole) || err != nil {
		t.Errorf("after its faults it answered %d with %d bytes, and the error %v", status, len(content), err)
	}
	if asked := m.Asked("/dl.k8s.io/") - before; asked != 1 {
		t.Errorf("it counted %d requests, not 1", asked)
	}
}

func TestAMirrorTakesThePlaceOfUpstreamsServers(t *testing.T) {
	content := small(t)
	manifest := filepath.Join(t.TempDir(), "network.yml")
	write(t, manifest, "a pod network")
	const network = "https://github.com/example/network/releases/download/v1.0.0/network.yml"
	content.Files = map[string]string{network: manifest}
	m := local(t, content)
	for url, want := range map[string]string{
		kubeletURL:                           strings.Repeat(kubeletURL+"\n", 10000),
		m.releaseURL(installer):              "the installer",
		network:                              "a pod network",
		"https://github.com/example/other":   "404 page not found\n",
		"https://registry.k8s.io/v2/":        "",
		"https://other.example.com/anything": "404 page not found\n",
	} {
		server, path, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
		_, got, err := ask(t, m, m.URL+"/"+path, func(r *http.Request) { r.Host = server })
		if err != nil || !strings.HasPrefix(string(got), want) || want == "" && len(got) > 2 {
			t.Errorf("%s: %.100q, %v, want %.100q", url, got, err, want)
		}
	}
	if m.Asked(PathOf(network)) != 1 {
		t.Errorf("it did not count the request for %s", network)
	}
}

func TestSoftwareHasTheDigestsOfWhatIsServed(t *testing.T) {
	content := small(t)
	content.Repository = &Repository{Key: "a key", folder: t.TempDir()}
	m := local(t, content)
	software, err := m.Software(t.Context(), "somewhere", "workers", kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	if software.Namespace != "somewhere" || software.Name != "workers-"+kubernetes {
		t.Errorf("it is %s/%s", software.Namespace, software.Name)
	}
	seen := 0
	check := func(url, digest string) {
		t.Helper()
		seen++
		status, content, err := ask(t, m, m.at(url), nil)
		if err != nil || status != 200 || fmt.Sprintf("%x", sha256.Sum256(content)) != digest {
			t.Errorf("%s: %d, %v, and the digest %s", url, status, err, digest)
		}
	}
	check(software.Spec.Installers[0].URLs[0], software.Spec.Installers[0].SHA256)
	for _, c := range software.Spec.Components {
		for _, variant := range c.Variants {
			if len(variant.Archive.URLs) > 0 {
				check(variant.Archive.URLs[0], variant.Archive.SHA256)
			}
		}
	}
	if seen != 6 {
		t.Errorf("%d files were looked at, not 6", seen)
	}
	if packages := packagesOf(software, "12"); len(packages) != 1 || packages[0].Name != balancer || packages[0].Version != "0.1.0-1" {
		t.Errorf("Debian 12 gets the packages %v", packages)
	}
	if packages := packagesOf(software, "13"); len(packages) != 0 {
		t.Errorf("Debian 13 gets the packages %v", packages)
	}
}

// packagesOf are those of the first variants that match a version of Debian.
func packagesOf(software *bootstrapv1.KOKSoftware, version string) (packages []bootstrapv1.Package) {
	for _, c := range software.Spec.Components {
		for _, variant := range c.Variants {
			if strings.Contains(strings.Join(variant.Match.OSVersions, " "), version) {
				packages = append(packages, variant.Packages...)
				break
			}
		}
	}
	return packages
}

func TestSoftwareOfAVersionThatTheMirrorLacksFails(t *testing.T) {
	m := local(t, small(t))
	if _, err := m.Software(t.Context(), "somewhere", "workers", "v1.2.3"); err == nil || !strings.Contains(err.Error(), "release/v1.2.3/bin/linux/amd64/kubelet from the mirror: 404") {
		t.Errorf("the error is %v", err)
	}
}

func TestRepositoryIsSignedByItsKey(t *testing.T) {
	folder := t.TempDir()
	repository, err := WriteRepository(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := os.ReadFile(filepath.Join(folder, "dists/stable/InRelease"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := openpgp.ReadArmoredKeyRing(strings.NewReader(repository.Key))
	if err != nil {
		t.Fatal(err)
	}
	block, rest := clearsign.Decode(signed)
	if block == nil || len(rest) > 0 {
		t.Fatalf("InRelease is no signed text: %q", signed)
	}
	if _, err := block.VerifySignature(keys, nil); err != nil {
		t.Errorf("its key does not verify it: %v", err)
	}
	if !strings.Contains(string(block.Plaintext), "main/binary-amd64/Packages\n") {
		t.Errorf("it lists no packages: %s", block.Plaintext)
	}
}
