package main

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
	"time"

	"k8s.io/client-go/util/cert"
)

// authority is the certificate authority of all tenants. It signs for one key, which all have.
type authority struct {
	certificate *x509.Certificate
	signer, key *ecdsa.PrivateKey
	pem, keyPEM []byte
}

func newAuthority() (*authority, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{signer: signer, key: key}
	if a.certificate, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "kubernetes"}, signer); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.certificate.Raw})
	a.keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return a, nil
}

// sign makes a certificate for a server at an address, or for the administrator of a tenant when there is none.
func (a *authority) sign(address net.IP) (certificate []byte, err error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		Subject:     pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if address != nil {
		template.IPAddresses, template.ExtKeyUsage = []net.IP{address}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.signer)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), nil
}

func (a *authority) server(address net.IP) (tls.Certificate, error) {
	certificate, err := a.sign(address)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, a.keyPEM)
}
