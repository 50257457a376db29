// Package nodetest makes what a node has, for tests: CAs, kubelet's files, and a process in kubelet's place.
package nodetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// CA is a CA of a cluster. All have the same name, as those of a rotation have.
type CA struct {
	Certificate *x509.Certificate
	PEM         []byte
	key         *ecdsa.PrivateKey
}

// NewCA makes a CA.
func NewCA(t *testing.T) CA {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	ca := CA{key: key}
	ca.Certificate = template // It signs itself.
	ca.PEM, ca.Certificate = ca.sign(t, template, &key.PublicKey)
	return ca
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	return key
}

func (c CA) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PublicKey) ([]byte, *x509.Certificate) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, c.Certificate, key, c.key)
	Must(t, err)
	certificate, err := x509.ParseCertificate(der)
	Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), certificate
}

// Sign signs a request, as kube-controller-manager does.
func (c CA) Sign(t *testing.T, request []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	Must(t, err)
	Must(t, parsed.CheckSignature())
	certificate, _ := c.sign(t, leaf(parsed.Subject, parsed), parsed.PublicKey.(*ecdsa.PublicKey))
	return certificate
}

func leaf(subject pkix.Name, request *x509.CertificateRequest) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, DNSNames: request.DNSNames, IPAddresses: request.IPAddresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

// Pair is a certificate of a node with its key, as PEM.
func (c CA) Pair(t *testing.T, node string, request *x509.CertificateRequest) []byte {
	t.Helper()
	key := newKey(t)
	certificate, _ := c.sign(t, leaf(Subject(node), request), &key.PublicKey)
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	Must(t, err)
	return append(certificate, keyPEM...)
}

// Leaf is a client certificate of a node.
func (c CA) Leaf(t *testing.T, node string) *x509.Certificate {
	t.Helper()
	_, certificate := c.sign(t, leaf(Subject(node), &x509.CertificateRequest{}), &newKey(t).PublicKey)
	return certificate
}

// Subject is that of a node's certificates.
func Subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// Bundle has the certificates of CAs.
func Bundle(all ...CA) []byte {
	var bundle []byte
	for _, ca := range all {
		bundle = append(bundle, ca.PEM...)
	}
	return bundle
}

// Must ends the test for an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
