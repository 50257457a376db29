// Package forgery makes what anybody can make who has a key of a tenant: certificates by its CAs, and tokens of its service accounts.
package forgery

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"sigs.k8s.io/cluster-api/util/certs"
)

const (
	// lives is how long forgeries are good: longer than any spec takes.
	lives = 24 * time.Hour
	// patience bounds a handshake between two ends in this process.
	patience = 10 * time.Second
)

// CA is a certificate authority whose key somebody has.
type CA struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// ReadCA reads a CA from PEM.
func ReadCA(certificatePEM, keyPEM []byte) (CA, error) {
	certificate, err := certs.DecodeCertPEM(certificatePEM)
	if err != nil {
		return CA{}, fmt.Errorf("read a CA: %w", err)
	}
	key, err := certs.DecodePrivateKeyPEM(keyPEM)
	if err != nil {
		return CA{}, fmt.Errorf("read the key of a CA: %w", err)
	}
	return CA{certificate, key}, nil
}

// Client makes a client's certificate for a user in groups.
func (c CA) Client(user string, groups ...string) (tls.Certificate, error) {
	return c.Like(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Like makes a certificate with the names and usages of a genuine one, and a key of its own.
func (c CA) Like(genuine *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: genuine.Subject, DNSNames: genuine.DNSNames, IPAddresses: genuine.IPAddresses,
		KeyUsage: genuine.KeyUsage, ExtKeyUsage: genuine.ExtKeyUsage,
		NotBefore: time.Now().Add(-5 * time.Minute), NotAfter: time.Now().Add(lives),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.Certificate, key.Public(), c.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Token makes a token by a key that says what a genuine one says, and ends later.
func Token(genuine string, keyPEM []byte) (string, error) {
	key, err := certs.DecodePrivateKeyPEM(keyPEM)
	if err != nil {
		return "", fmt.Errorf("read the key of service accounts: %w", err)
	}
	method := jwt.SigningMethod(jwt.SigningMethodRS256)
	if _, is := key.(*ecdsa.PrivateKey); is {
		method = jwt.SigningMethodES256
	}
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser(jwt.WithJSONNumber()).ParseUnverified(genuine, claims); err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	claims["exp"] = time.Now().Add(lives).Unix()
	// Without the ID of a key in its header, API servers try each key that they trust.
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// Trusts returns why a client that trusts a bundle of CAs, in PEM, ends the handshake with a server that has a certificate and a name; nil if it
// does not.
func Trusts(bundle []byte, server tls.Certificate, name string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("the bundle has no CA")
	}
	here, there := net.Pipe()
	deadline := time.Now().Add(patience)
	if err := errors.Join(here.SetDeadline(deadline), there.SetDeadline(deadline)); err != nil {
		return fmt.Errorf("limit a handshake: %w", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer there.Close()                                                                                                   //nolint:errcheck // Nothing is written.
		_ = tls.Server(there, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}).Handshake() // The client's error counts.
	}()
	err := tls.Client(here, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name}).Handshake()
	_ = here.Close() // It has no buffer.
	<-served
	return err
}
