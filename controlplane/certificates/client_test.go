package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// tenantServer is a TLS server that names its callers and counts their connections.
func tenantServer(t *testing.T, w *world) (url string, callers func() []*x509.Certificate) {
	t.Helper()
	leaf := Leaf{Name: "server", Signer: pki.ClusterCA, CommonName: "kube-apiserver", DNSNames: []string{TenantServerName}, Usages: server}
	certPEM, keyPEM, err := leaf.issue(&w.Keys.ClusterCA, w.clock.Now(), leafLife)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(w.Keys.ClusterCA.Certificate)
	var seen []*x509.Certificate
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		seen = append(seen, request.TLS.PeerCertificates[0])
		response.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(response).Encode(version.Info{GitVersion: "v1.36.3"})
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		Time: w.clock.Now,
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, func() []*x509.Certificate { return seen }
}

func TestRESTConfigRenewsItsCertificate(t *testing.T) {
	w := newWorld(t)
	url, callers := tenantServer(t, w)
	config, err := w.RESTConfig(url, "kok-control-plane", []string{"system:masters"})
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, pass := range []time.Duration{0, clientLife/2 - time.Second, time.Second, clientLife / 2} {
		w.clock.SetTime(w.clock.Now().Add(pass))
		if got, err := tenant.ServerVersion(); err != nil || got.GitVersion != "v1.36.3" {
			t.Fatalf("after %s: %v, %v", pass, got, err)
		}
	}
	seen := callers()
	if len(seen) != 4 {
		t.Fatalf("%d requests", len(seen))
	}
	if !seen[0].Equal(seen[1]) || seen[1].Equal(seen[2]) || seen[2].Equal(seen[3]) {
		t.Error("certificates are not renewed after half an hour, or earlier")
	}
	first := seen[0]
	if first.Subject.CommonName != "kok-control-plane" || first.Subject.Organization[0] != "system:masters" || first.NotAfter.Sub(first.NotBefore) != clientLife {
		t.Errorf("subject %s, life %s", first.Subject, first.NotAfter.Sub(first.NotBefore))
	}
}

func TestRESTConfigTrustsItsOwnTenantOnly(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	url, _ := tenantServer(t, w)
	mixed := *other.Keys
	mixed.ClusterCA.Bundle = w.Keys.ClusterCA.Bundle
	for name, stranger := range map[string]*pki.KeyMaterial{"that does not trust the server": other.Keys, "that the server does not trust": &mixed} {
		config, err := Issuer{Keys: stranger, Clock: w.clock}.RESTConfig(url, "kok-control-plane", nil)
		if err != nil {
			t.Fatal(err)
		}
		tenant, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tenant.ServerVersion(); err == nil {
			t.Errorf("a client %s was served", name)
		}
	}
}

func TestClientTLSShowsAFreshCertificateOnEachConnection(t *testing.T) {
	w := newWorld(t)
	url, callers := tenantServer(t, w)
	config, err := w.ClientTLS(pki.ClusterCA, "kok", nil, TenantServerName)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true}}
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		w.clock.SetTime(w.clock.Now().Add(clientLife))
	}
	if seen := callers(); len(seen) != 2 || seen[0].Equal(seen[1]) {
		t.Error("an expired certificate was shown again")
	}
	if _, err := w.ClientTLS("nobody", "kok", nil, ""); err == nil {
		t.Error("an unknown signer was accepted")
	}
}

// Servers of two phases run while one begins. A client shows a certificate that both take, and takes the certificates of both.
func TestClientsOfACAThatRotates(t *testing.T) {
	w := newWorld(t)
	born := w.Keys
	identities := map[string]bool{ClientIdentity(born, pki.EtcdCA): true}
	for _, test := range []struct {
		phase                    rotation.Phase
		showsNext                bool
		trustsFormer, trustsNext bool
		another                  bool
	}{
		{rotation.Trusting, false, true, true, true},
		{rotation.Using, true, true, true, true},
		{rotation.Prepared, true, true, true, false},
		{rotation.Dropping, true, false, true, true},
		{rotation.Over, true, false, true, false},
	} {
		next := w.rotate(pki.EtcdCA, test.phase)
		config, err := w.ClientTLS(pki.EtcdCA, "kok-control-plane", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		shown, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(shown.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := leaf.CheckSignatureFrom(next.Certificate) == nil; got != test.showsNext || got == (leaf.CheckSignatureFrom(born.EtcdCA.Certificate) == nil) {
			t.Errorf("%s: it is %t that it shows a certificate by the new CA", test.phase, got)
		}
		for ca, want := range map[*x509.Certificate]bool{born.EtcdCA.Certificate: test.trustsFormer, next.Certificate: test.trustsNext} {
			if _, err := ca.Verify(x509.VerifyOptions{Roots: config.RootCAs, CurrentTime: w.clock.Now()}); (err == nil) != want {
				t.Errorf("%s: it is %t that it trusts %s", test.phase, err == nil, ca.SerialNumber)
			}
		}
		identity := ClientIdentity(w.Keys, pki.EtcdCA)
		if identities[identity] == test.another {
			t.Errorf("%s: it is %t that the client is another one than before", test.phase, !identities[identity])
		}
		identities[identity] = true
		if ClientIdentity(w.Keys, pki.EtcdEventsCA) != ClientIdentity(born, pki.EtcdEventsCA) {
			t.Errorf("%s: clients of another CA are other ones", test.phase)
		}
	}
	if _, err := w.ClientTLS("another CA", "kok-control-plane", nil, ""); err == nil {
		t.Error("there is a client of a CA that there is not")
	}
}
