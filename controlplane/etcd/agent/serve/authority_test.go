package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a CA.
type authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// file has its certificate.
	file string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.crt")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	must(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	must(t, err)
	must(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// issue makes a certificate for a client of that name, and a server at that address.
func (a *authority) issue(name string, serial int64, ips ...net.IP) (certificate, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: ips, DNSNames: []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	must(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// files has such a certificate in files.
func (a *authority) files(name string, ips ...net.IP) (certificate, key string) {
	a.t.Helper()
	folder := a.t.TempDir()
	certificate, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	c, k := a.issue(name, 2, ips...)
	must(a.t, os.WriteFile(certificate, c, 0o600))
	must(a.t, os.WriteFile(key, k, 0o600))
	return certificate, key
}

// client is what a client of that name dials with; the certificate is not there without a name.
func (a *authority) client(name string) *tls.Config {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if name != "" {
		c, k := a.issue(name, 3)
		pair, err := tls.X509KeyPair(c, k)
		must(a.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
