package certificates

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/certs"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

const (
	// leafLife is how long a leaf is valid that is not lasting; it is renewed after half of it.
	leafLife = certs.DefaultCertDuration
	// shortLife is how long a leaf is valid that is short. Half of it is what a renewal may be late, such as while a link is cut.
	shortLife = 7 * 24 * time.Hour
	// clientLife is the life of the manager's own client certificates, which never leave its memory.
	clientLife = time.Hour
	// backdate lets peers use a new certificate whose clocks are behind.
	backdate = 5 * time.Minute
)

// Leaf is a certificate that a component wants.
type Leaf struct {
	// Name is the prefix of its two data keys, "<name>.crt" and "<name>.key".
	Name string
	// Signer is the certificate authority that issues it. SignerFile is what the names of that CA's files end in: empty for the CA that the
	// tenant was made with.
	Signer     pki.Signer
	SignerFile string
	// CommonName is required.
	CommonName string
	// Organizations are groups, for client certificates of Kubernetes.
	Organizations []string
	// DNSNames and IPs are names and addresses of a server. Their order does not matter.
	DNSNames []string
	IPs      []net.IP
	// Usages is at least one of server and client authentication.
	Usages []x509.ExtKeyUsage
	// Lasting makes the leaf valid as long as its signer. It is for a program that reads the leaf only when it starts, and would
	// serve an expired one some day.
	Lasting bool
	// Short makes the leaf valid for a week. It is for whoever has it outside the control plane, where nobody can take it back.
	Short bool
}

// CertKey and KeyKey are the data keys of the leaf.
func (l Leaf) CertKey() string { return l.Name + ".crt" }

// KeyKey is the data key of the leaf's private key.
func (l Leaf) KeyKey() string { return l.Name + ".key" }

// BySigning are leaves like this one for clients, one by each CA that is in use in the phase of the signer's rotation. Each has a name of its
// own.
func BySigning(keys *pki.KeyMaterial, leaf Leaf) []Leaf { return leaf.by(keys.Signing(leaf.Signer)) }

// ByShowing are leaves like this one for servers, one by each CA by which servers show theirs in the phase of the signer's rotation.
func ByShowing(keys *pki.KeyMaterial, leaf Leaf) []Leaf { return leaf.by(keys.Showing(leaf.Signer)) }

func (l Leaf) by(signerFiles []string) []Leaf {
	leaves := make([]Leaf, 0, len(signerFiles))
	for _, file := range signerFiles {
		signed := l
		signed.Name, signed.SignerFile = LeafName(l.Name, file), file
		leaves = append(leaves, signed)
	}
	return leaves
}

// LeafName is the name of a leaf by the CA whose file names end in signerFile. A pod that mounts the leaf gets one by this CA or does not
// start.
func LeafName(name, signerFile string) string { return pki.KeyFile(name, signerFile) }

// issue makes a key and a certificate for the leaf, valid for life from now, but never longer than
// its issuer.
//
// Cluster API's certs.Config.NewSignedCert is not used: it dates a certificate back to its
// issuer's first day, which makes "half of its life" meaningless, and knows no shorter life.
func (l Leaf) issue(issuer *pki.CA, now time.Time, life time.Duration) (certificate, key []byte, err error) {
	if l.CommonName == "" || len(l.Usages) == 0 {
		return nil, nil, fmt.Errorf("leaf %q: CommonName and Usages are required", l.Name)
	}
	if !now.Before(issuer.Certificate.NotAfter) {
		return nil, nil, fmt.Errorf("leaf %q: the %s expired at %s, nothing can be issued by it", l.Name, l.Signer, issuer.Certificate.NotAfter.Format(time.RFC3339))
	}
	signer, err := certs.NewSigner(pki.KeyAlgorithm)
	if err != nil {
		return nil, nil, fmt.Errorf("leaf %q: generate key: %w", l.Name, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, nil, fmt.Errorf("leaf %q: generate serial number: %w", l.Name, err)
	}
	notBefore := now.Add(-backdate).UTC()
	notAfter := notBefore.Add(life)
	if issuer.Certificate.NotAfter.Before(notAfter) {
		notAfter = issuer.Certificate.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: l.CommonName, Organization: l.Organizations},
		DNSNames:     l.DNSNames,
		IPAddresses:  l.IPs,
		NotBefore:    notBefore,
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  l.Usages,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Certificate, signer.Public(), issuer.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("leaf %q: sign by the %s: %w", l.Name, l.Signer, err)
	}
	key, err = certs.EncodePrivateKeyPEMFromSigner(signer)
	if err != nil {
		return nil, nil, fmt.Errorf("leaf %q: encode key: %w", l.Name, err)
	}
	return certs.EncodeCertPEM(&x509.Certificate{Raw: der}), key, nil
}

// check returns an error when a certificate and key are not what the leaf wants, or no longer. Otherwise it returns the time
// of the renewal; zero when a new one could not be valid for longer.
func (l Leaf) check(certPEM, keyPEM []byte, issuer *pki.CA, now time.Time) (renewAt time.Time, err error) {
	certificate, err := readPair(certPEM, keyPEM)
	if err != nil {
		return time.Time{}, err
	}
	if err := certificate.CheckSignatureFrom(issuer.Certificate); err != nil {
		return time.Time{}, fmt.Errorf("not issued by the present %s: %w", l.Signer, err)
	}
	subject := pkix.Name{CommonName: certificate.Subject.CommonName, Organization: certificate.Subject.Organization}
	switch {
	case subject.CommonName != l.CommonName || !sameSet(subject.Organization, l.Organizations):
		return time.Time{}, fmt.Errorf("subject is %s", subject)
	case !sameSet(certificate.DNSNames, l.DNSNames) || !sameSet(ipStrings(certificate.IPAddresses), ipStrings(l.IPs)):
		return time.Time{}, errors.New("subject alternative names differ")
	case !sameSet(certificate.ExtKeyUsage, l.Usages):
		return time.Time{}, errors.New("usages differ")
	case now.Before(certificate.NotBefore):
		return time.Time{}, errors.New("not valid yet")
	}
	if !certificate.NotAfter.Before(issuer.Certificate.NotAfter) {
		if now.Before(certificate.NotAfter) {
			return time.Time{}, nil
		}
		return time.Time{}, errors.New("expired")
	}
	renewAt = certificate.NotBefore.Add(certificate.NotAfter.Sub(certificate.NotBefore) / 2)
	if !now.Before(renewAt) {
		return time.Time{}, errors.New("past half of its life")
	}
	return renewAt, nil
}

// readPair reads a certificate, and fails unless the key belongs to it.
func readPair(certPEM, keyPEM []byte) (*x509.Certificate, error) {
	certificate, err := certs.DecodeCertPEM(certPEM)
	if err != nil {
		return nil, fmt.Errorf("no certificate: %w", err)
	}
	key, err := certs.DecodePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("no key: %w", err)
	}
	if !pki.SamePublicKey(certificate.PublicKey, key.Public()) {
		return nil, errors.New("key belongs to another certificate")
	}
	return certificate, nil
}

func sameSet[T comparable](a, b []T) bool { return sets.New(a...).Equal(sets.New(b...)) }

func ipStrings(ips []net.IP) []string {
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}

// ensure keeps the leaf in data when it is as wanted, and issues it otherwise. It returns the time of the renewal.
func (l Leaf) ensure(data, wanted map[string][]byte, issuer *pki.CA, now time.Time) (time.Time, error) {
	certificate, key := data[l.CertKey()], data[l.KeyKey()]
	renewAt, err := l.check(certificate, key, issuer, now)
	if err != nil {
		life := leafLife
		switch {
		case l.Short:
			life = shortLife
		case l.Lasting:
			life = issuer.Certificate.NotAfter.Sub(now) + backdate
		}
		if certificate, key, err = l.issue(issuer, now, life); err != nil {
			return time.Time{}, err
		}
		if renewAt, err = l.check(certificate, key, issuer, now); err != nil {
			return time.Time{}, fmt.Errorf("leaf %q: what was just issued is not as wanted: %w", l.Name, err)
		}
	}
	wanted[l.CertKey()], wanted[l.KeyKey()] = bytes.Clone(certificate), bytes.Clone(key)
	return renewAt, nil
}

// earlier is the earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
