package hostcluster

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const validity = 365 * 24 * time.Hour

// pki keeps authorities and certificates as files, and makes what is missing or no longer fits.
type pki struct{ dir string }

// pair is a certificate and its key.
type pair struct {
	cert, key []byte

	certificate *x509.Certificate
	signer      crypto.Signer
}

// subject is what a leaf certificate says.
type subject struct {
	user   string
	groups []string
	dns    []string
	ips    []net.IP
	// server says that the certificate is for a listener too, and not for a client alone.
	server bool
}

// authority returns the named certificate authority.
func (p pki) authority(name string) (*pair, error) {
	if found, err := p.read(name); err != nil || found != nil {
		return found, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "kok-lab " + name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(10 * validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	return p.issue(name, template, nil)
}

// leaf returns a certificate by the authority for the subject; the one kept under the name serves as long as it fits.
func (p pki) leaf(name string, ca *pair, s subject) (*pair, error) {
	found, err := p.read(name)
	if err != nil {
		return nil, err
	}
	if found != nil && fits(found.certificate, ca.certificate, s) {
		return found, nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.user, Organization: s.groups},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    s.dns,
		IPAddresses: s.ips,
	}
	if s.server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return p.issue(name, template, ca)
}

// fits says whether a certificate still says what it should, for at least a month more.
func fits(c, ca *x509.Certificate, s subject) bool {
	sameIP := func(a, b net.IP) bool { return a.Equal(b) }
	return c.CheckSignatureFrom(ca) == nil &&
		time.Now().Add(30*24*time.Hour).Before(c.NotAfter) &&
		c.Subject.CommonName == s.user &&
		slices.Equal(c.Subject.Organization, s.groups) &&
		slices.Equal(c.DNSNames, s.dns) &&
		slices.EqualFunc(c.IPAddresses, s.ips, sameIP)
}

// issue makes a key and a certificate, self-signed without an authority, and keeps them.
func (p pki) issue(name string, template *x509.Certificate, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63)); err != nil {
		return nil, err
	}
	parent, signer := template, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.certificate, ca.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
	// The key first: a certificate without its key is taken for missing.
	if err := p.write(name+".key", keyPEM, 0o600); err != nil {
		return nil, err
	}
	if err := p.write(name+".crt", certPEM, 0o644); err != nil {
		return nil, err
	}
	return parsePair(certPEM, keyPEM)
}

// signingKey returns the key that signs service account tokens, and its public half.
func (p pki) signingKey(name string) (private, public []byte, err error) {
	private, err = os.ReadFile(filepath.Join(p.dir, name+".key"))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		if private, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, nil, err
		}
		if err := p.write(name+".key", private, 0o600); err != nil {
			return nil, nil, err
		}
	} else if err != nil {
		return nil, nil, err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(private)
	if err != nil {
		return nil, nil, fmt.Errorf("read key %s: %w", name, err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("key %s cannot sign", name)
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, nil, err
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), nil
}

// read returns what is kept under a name, nil when it is missing or incomplete.
func (p pki) read(name string) (*pair, error) {
	cert, certErr := os.ReadFile(filepath.Join(p.dir, name+".crt"))
	key, keyErr := os.ReadFile(filepath.Join(p.dir, name+".key"))
	if errors.Is(certErr, fs.ErrNotExist) || errors.Is(keyErr, fs.ErrNotExist) {
		return nil, nil
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	found, err := parsePair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s in %s: %w", name, p.dir, err)
	}
	public, ok := found.certificate.PublicKey.(*ecdsa.PublicKey)
	if !ok || !public.Equal(found.signer.Public()) {
		return nil, nil // an interrupted renewal
	}
	return found, nil
}

func parsePair(cert, key []byte) (*pair, error) {
	certs, err := certutil.ParseCertsPEM(cert)
	if err != nil {
		return nil, err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return nil, err
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	return &pair{cert: cert, key: key, certificate: certs[0], signer: signer}, nil
}

func (p pki) write(name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.dir, name), data, mode)
}

// replaceFile writes a file whole or not at all, and leaves one alone that says the same.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.WriteFile(path+".new", data, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
