//go:build envtest

package tenant

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// proxies is a tenant whose front proxy CA rotates, without control plane: its key material and its certificates.
type proxies struct {
	t       *testing.T
	cluster client.ObjectKey
	host    client.Client
	store   *pki.Store
	keys    *pki.KeyMaterial
	// directory has all files.
	directory string
}

func newProxies(t *testing.T) *proxies {
	t.Helper()
	p := &proxies{t: t, cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, host: fake.NewClientBuilder().Build(), directory: t.TempDir()}
	access := secrets.Access{Cached: p.host, Live: p.host, Writer: p.host}
	p.store = &pki.Store{Management: access, Host: access}
	p.ensure()
	return p
}

func (p *proxies) ensure() {
	p.t.Helper()
	var err error
	if p.keys, err = p.store.Ensure(p.t.Context(), pki.Request{Cluster: p.cluster, UsedBy: func(context.Context) (string, error) { return "", nil }}); err != nil {
		p.t.Fatal(err)
	}
}

// rotate takes the CA to a phase, and puts the files of that beside those of earlier ones.
func (p *proxies) rotate(phase rotation.Phase) {
	p.t.Helper()
	if err := p.store.Rotate(p.t.Context(), p.cluster, p.keys, string(pki.FrontProxyCA), rotation.Record{Asked: "2026-03-04T05:06:07Z", Phase: phase}); err != nil {
		p.t.Fatal(err)
	}
	p.ensure()
	certs := client.ObjectKey{Namespace: p.cluster.Namespace, Name: "certs"}
	issuer := certificates.Issuer{Keys: p.keys, Clock: clock.RealClock{}}
	if _, err := issuer.EnsureLeaves(p.t.Context(), p.store.Host, certificates.LeafSecret{Key: certs, Leaves: certificates.BySigning(p.keys, certificates.Leaf{
		Name: "front-proxy-client", Signer: pki.FrontProxyCA, CommonName: "front-proxy-client", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})}); err != nil {
		p.t.Fatal(err)
	}
	for _, key := range []client.ObjectKey{certs, {Namespace: p.cluster.Namespace, Name: names.KeyMaterial(p.cluster.Name)}} {
		secret := &corev1.Secret{}
		if err := p.host.Get(p.t.Context(), key, secret); err != nil {
			p.t.Fatal(err)
		}
		for name, content := range secret.Data {
			if err := os.WriteFile(filepath.Join(p.directory, name), content, 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// signsIn reports whether an API server takes the leaf of a CA for that of a front proxy.
func (p *proxies) signsIn(access *rest.Config, file string) bool {
	p.t.Helper()
	leaf := filepath.Join(p.directory, certificates.LeafName("front-proxy-client", file))
	certificate, err := tls.LoadX509KeyPair(leaf+".crt", leaf+".key")
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(access.CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	server, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: access.Host, TLSClientConfig: access.TLSClientConfig})
	if err != nil {
		p.t.Fatal(err)
	}
	review := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, server.JoinPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").String(), strings.NewReader(review))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "X-Remote-User": {"alice"}}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusUnauthorized {
		return false
	}
	reviewed := &authenticationv1.SelfSubjectReview{}
	if err := json.NewDecoder(answer.Body).Decode(reviewed); err != nil || reviewed.Status.UserInfo.Username != "alice" {
		p.t.Fatalf("it answers %s to %q: %v", answer.Status, reviewed.Status.UserInfo.Username, err)
	}
	return true
}

// kube-apiserver itself tells who signs in as a front proxy, and keeps what it publishes.
func TestFrontProxiesOfEachPhaseAtAKubeAPIServer(t *testing.T) {
	p := newProxies(t)
	p.rotate(rotation.Using)
	next := p.keys.Rotation(string(pki.FrontProxyCA)).File()
	former, made := p.keys.RotatingCAs(pki.FrontProxyCA)
	of := &envtest.Environment{}
	args := of.ControlPlane.GetAPIServer().Configure()
	args.Set("requestheader-allowed-names", "front-proxy-client").Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").Set("requestheader-extra-headers-prefix", "X-Remote-Extra-")
	configure := func() {
		trusted := p.keys.Files(string(pki.FrontProxyCA)).Trusted
		args.Set("requestheader-client-ca-file", filepath.Join(p.directory, pki.TrustedFile(pki.FrontProxyCACert, trusted...)))
	}
	configure()
	stop, err := interrupt.Guard(func() error { _, err := of.Start(); return err }, of.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	for _, file := range []string{"", next} {
		if !p.signsIn(of.Config, file) {
			t.Errorf("both CAs are trusted, and the proxy of %q is refused", file)
		}
	}
	publishes(t, of.Config, string(former), string(made))

	// restart starts another API server with the CAs of a phase, and waits until it has published them: each does so when it starts.
	restart := func(access *rest.Config) *rest.Config {
		t.Helper()
		const other = "requestheader-allowed-names"
		published := &corev1.ConfigMap{}
		tenant := clientOf(t, access)
		if err := tenant.Get(t.Context(), PublishedCAs, published); err != nil {
			t.Fatal(err)
		}
		delete(published.Data, other)
		if err := errors.Join(tenant.Update(t.Context(), published), of.ControlPlane.APIServer.Stop()); err != nil {
			t.Fatal(err)
		}
		configure()
		if err := of.ControlPlane.APIServer.Start(); err != nil {
			t.Fatal(err)
		}
		// Each start has certificates of its own.
		admin, err := of.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		untilPublished(t, admin.Config(), func(published *corev1.ConfigMap) bool { return published.Data[other] != "" })
		return admin.Config()
	}
	p.rotate(rotation.Dropping)
	access := restart(of.Config)
	if p.signsIn(access, "") {
		t.Error("the proxy of the former CA signs in")
	}
	if !p.signsIn(access, next) {
		t.Error("the proxy of the new CA is refused")
	}

	// What is published is another matter: the former CA stays until somebody takes it away.
	publishes(t, access, string(former), string(made))
	if waits, err := EnsurePublished(t.Context(), clientOf(t, access), PublishedFrontProxyCAs, made, former); waits != "" || err != nil {
		t.Fatalf("it waits %q: %v", waits, err)
	}
	publishes(t, restart(access), string(made))
}

func clientOf(t *testing.T, access *rest.Config) client.Client {
	t.Helper()
	tenant, err := NewClient(access)
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

// publishes waits until the API server publishes these CAs and no others.
func publishes(t *testing.T, access *rest.Config, cas ...string) {
	t.Helper()
	var want []string
	for _, ca := range cas {
		want = append(want, certificatesOf([]byte(ca))...)
	}
	untilPublished(t, access, func(published *corev1.ConfigMap) bool {
		return published.Data[PublishedFrontProxyCAs] == bundleOf(want)
	})
}

func untilPublished(t *testing.T, access *rest.Config, is func(*corev1.ConfigMap) bool) {
	t.Helper()
	tenant, published := clientOf(t, access), &corev1.ConfigMap{}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := tenant.Get(ctx, PublishedCAs, published)
		return err == nil && is(published), client.IgnoreNotFound(err)
	}); err != nil {
		t.Fatalf("what is published is %q: %v", published.Data, err)
	}
}
