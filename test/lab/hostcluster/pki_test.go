package hostcluster

import (
	"bytes"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestCertificatesAreKeptWhileTheyFit(t *testing.T) {
	p := pki{dir: t.TempDir()}
	ca, err := p.authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	s := subject{user: "kubelet", groups: []string{"system:nodes"}, dns: []string{"idc-1"}, ips: []net.IP{net.IPv4(10, 220, 0, 11)}, server: true}
	first, err := p.leaf("kubelet", ca, s)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	for _, name := range []string{"idc-1", "10.220.0.11"} {
		if _, err := first.certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("the certificate does not serve %s: %v", name, err)
		}
	}
	again, err := p.leaf("kubelet", ca, s)
	if err != nil || !bytes.Equal(first.cert, again.cert) {
		t.Errorf("a certificate that fits was made anew (%v)", err)
	}
	s.dns = []string{"idc-2"}
	moved, err := p.leaf("kubelet", ca, s)
	if err != nil || bytes.Equal(moved.cert, first.cert) {
		t.Errorf("a certificate for another name was kept (%v)", err)
	}
	foreign, err := pki{dir: t.TempDir()}.authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := p.leaf("kubelet", foreign, s)
	if err != nil || bytes.Equal(signed.cert, moved.cert) {
		t.Errorf("a certificate by another authority was kept (%v)", err)
	}
}

func TestAnInterruptedRenewalIsRepeated(t *testing.T) {
	p := pki{dir: t.TempDir()}
	ca, err := p.authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	s := subject{user: "a"}
	first, err := p.leaf("a", ca, s)
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.leaf("b", ca, subject{user: "b"})
	if err != nil {
		t.Fatal(err)
	}
	// The new key is written, the old certificate is still there.
	if err := os.WriteFile(filepath.Join(p.dir, "a.key"), other.key, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := p.leaf("a", ca, s)
	if err != nil || bytes.Equal(got.cert, first.cert) {
		t.Errorf("a certificate whose key is another one was kept (%v)", err)
	}
}

func TestAuthoritiesAndTokenKeysAreKept(t *testing.T) {
	p := pki{dir: t.TempDir()}
	ca, err := p.authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.authority("ca")
	if err != nil || !bytes.Equal(ca.key, again.key) {
		t.Errorf("the authority was made anew (%v)", err)
	}
	key, public, err := p.signingKey("service-accounts")
	if err != nil {
		t.Fatal(err)
	}
	key2, public2, err := p.signingKey("service-accounts")
	if err != nil || !bytes.Equal(key, key2) || !bytes.Equal(public, public2) {
		t.Errorf("the key of service accounts was made anew (%v)", err)
	}
}
