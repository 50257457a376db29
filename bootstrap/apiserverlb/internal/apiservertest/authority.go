// Package apiservertest has servers that behave like kube-apiservers as far as a load balancer sees
// them: TLS, HTTP/2, /readyz, a watch, and all the ways to fail.
package apiservertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// ServerName is in every server's certificate.
const ServerName = "kubernetes.default.svc"

// lifetime is that of certificates.
const lifetime = time.Hour

// Authority certifies servers and clients of one test.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM is the certificate of the authority.
	PEM []byte
}

// NewAuthority returns an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{t, certificate, key, encode("CERTIFICATE", der)}
}

// File writes the authority's certificate to a file and returns its path.
func (a *Authority) File() string {
	a.t.Helper()
	return write(a.t, filepath.Join(a.t.TempDir(), "ca.crt"), a.PEM)
}

// Pool trusts the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// ClientFile writes a new client certificate and its key to one file, as kubelet does. What was
// there is replaced.
func (a *Authority) ClientFile(path, commonName string) {
	a.t.Helper()
	write(a.t, path, slices.Concat(a.Client(commonName, lifetime)))
}

// Client issues a new client certificate, which expires after a time that may be negative.
func (a *Authority) Client(commonName string, expires time.Duration) (certificatePEM, keyPEM []byte) {
	a.t.Helper()
	der, key := a.issue(commonName, nil, x509.ExtKeyUsageClientAuth, expires)
	return encode("CERTIFICATE", der), key
}

// Server issues a new certificate of an API server.
func (a *Authority) Server() tls.Certificate {
	a.t.Helper()
	der, key := a.issue("kube-apiserver", []string{ServerName}, x509.ExtKeyUsageServerAuth, lifetime)
	pair, err := tls.X509KeyPair(encode("CERTIFICATE", der), key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

func (a *Authority) issue(commonName string, names []string, usage x509.ExtKeyUsage, expires time.Duration) (der, keyPEM []byte) {
	a.t.Helper()
	key := newKey(a.t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	der, err = x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName, Organization: []string{"system:nodes"}}, DNSNames: names,
		NotBefore: time.Now().Add(-2 * lifetime), NotAfter: time.Now().Add(expires), ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, encode("EC PRIVATE KEY", keyDER)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
