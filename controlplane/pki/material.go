package pki

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/cluster-api/util/certs"
)

// Keys in the data of the host cluster's copy, names.KeyMaterial.
const (
	CACert             = "ca.crt"
	CAKey              = "ca.key"
	EtcdCACert         = "etcd-ca.crt"
	EtcdCAKey          = "etcd-ca.key"
	EtcdEventsCACert   = "etcd-events-ca.crt"
	EtcdEventsCAKey    = "etcd-events-ca.key"
	FrontProxyCACert   = "front-proxy-ca.crt"
	FrontProxyCAKey    = "front-proxy-ca.key"
	ServiceAccountPub  = "sa.pub"
	ServiceAccountKey  = "sa.key"
	EncryptionKey      = "encryption-key"
	EncryptionFileName = "encryption-configuration.yaml"
)

// Signer names a certificate authority of a tenant.
type Signer string

// Certificate authorities of a tenant.
const (
	ClusterCA    Signer = "cluster CA"
	EtcdCA       Signer = "etcd CA"
	EtcdEventsCA Signer = "events etcd CA"
	FrontProxyCA Signer = "front proxy CA"
)

// CA is a certificate authority.
type CA struct {
	// Bundle is its certificate as PEM, as it is in the Secret.
	Bundle []byte
	// Certificate is the first one in Bundle, the one that Key belongs to.
	Certificate *x509.Certificate
	// Key signs.
	Key crypto.Signer
}

// KeyMaterial is everything of a tenant that is made once.
type KeyMaterial struct {
	// ClusterCA signs what kube-apiserver's clients and servers use.
	ClusterCA CA
	// EtcdCA signs for the data etcd, EtcdEventsCA for the events etcd.
	EtcdCA       CA
	EtcdEventsCA CA
	// FrontProxyCA signs the client certificate that kube-apiserver shows to aggregated APIs.
	FrontProxyCA CA
	// ServiceAccountPub and ServiceAccountKey are PEM.
	ServiceAccountPub []byte
	ServiceAccountKey []byte
	// EncryptionKey encrypts at rest; 32 bytes. Key material that was stored while the key rotated has both keys here.
	EncryptionKey []byte
	// Copied are the Secrets that were made or completed from the other copy in this call.
	Copied []Location
	// Generated is what was made for the first time in this call.
	Generated []string

	// parts are those of each item, by its name, as they are in Secrets.
	parts map[string][][]byte
	// rotations are those of kinds that were ever rotated, by the name of the item.
	rotations map[string]*Rotation
}

// CA is the certificate authority of that name, nil if there is none.
func (m *KeyMaterial) CA(signer Signer) *CA {
	switch signer {
	case ClusterCA:
		return &m.ClusterCA
	case EtcdCA:
		return &m.EtcdCA
	case EtcdEventsCA:
		return &m.EtcdEventsCA
	case FrontProxyCA:
		return &m.FrontProxyCA
	}
	return nil
}

// Only is the key material with one certificate authority and its rotation, and nothing else, for what is kept between reconciles.
func (m *KeyMaterial) Only(signer Signer) *KeyMaterial {
	only := &KeyMaterial{}
	if ca := m.CA(signer); ca != nil {
		*only.CA(signer) = *ca
	}
	if r := m.rotations[string(signer)]; r != nil {
		only.rotations = map[string]*Rotation{string(signer): r}
	}
	return only
}

// partError says which part of a key is unusable.
type partError struct {
	part    int
	problem string
}

func (e *partError) Error() string { return e.problem }

const (
	publicPart  = 0
	privatePart = 1
)

// parseCA reads a CA's certificate and key and checks that they belong together.
func parseCA(parts [][]byte) (CA, error) {
	certificate, err := certs.DecodeCertPEM(parts[publicPart])
	if err != nil {
		return CA{}, &partError{publicPart, fmt.Sprintf("is no PEM certificate (%v)", err)}
	}
	if !certificate.IsCA {
		return CA{}, &partError{publicPart, "is not a certificate authority (basic constraint CA is false)"}
	}
	key, err := certs.DecodePrivateKeyPEM(parts[privatePart])
	if err != nil {
		return CA{}, &partError{privatePart, fmt.Sprintf("is no PEM private key (%v)", err)}
	}
	if !SamePublicKey(certificate.PublicKey, key.Public()) {
		return CA{}, &partError{privatePart, "does not belong to the certificate beside it"}
	}
	return CA{Bundle: parts[publicPart], Certificate: certificate, Key: key}, nil
}

func checkCA(parts [][]byte) error {
	_, err := parseCA(parts)
	return err
}

// checkServiceAccount accepts several public keys, as kube-apiserver does, if one is the private
// key's.
func checkServiceAccount(parts [][]byte) error {
	public, err := keyutil.ParsePublicKeysPEM(parts[publicPart])
	if err != nil {
		return &partError{publicPart, fmt.Sprintf("is no PEM public key (%v)", err)}
	}
	key, err := certs.DecodePrivateKeyPEM(parts[privatePart])
	if err != nil {
		return &partError{privatePart, fmt.Sprintf("is no PEM private key (%v)", err)}
	}
	for _, candidate := range public {
		if SamePublicKey(candidate, key.Public()) {
			return nil
		}
	}
	return &partError{privatePart, "does not belong to the public key beside it"}
}

func checkEncryptionKey(parts [][]byte) error {
	if len(splitEncryptionKeys(parts[publicPart])) == 0 {
		return &partError{publicPart, fmt.Sprintf("has %d bytes, want %d", len(parts[publicPart]), encryptionKeySize)}
	}
	return nil
}

// SamePublicKey reports whether two public keys are the same.
func SamePublicKey(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

// fingerprint identifies a key by its public part, whatever its encoding is. A key without a public part it identifies by a
// hash of the whole.
func fingerprint(parts [][]byte) string {
	hash := sha256.New()
	rest := bytes.TrimSpace(parts[publicPart])
	if block, _ := pem.Decode(rest); block == nil {
		hash.Write(parts[publicPart])
	}
	for block, more := pem.Decode(rest); block != nil; block, more = pem.Decode(more) {
		hash.Write(block.Bytes)
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)[:16])
}

func newKeyMaterial(values map[string][][]byte) (*KeyMaterial, error) {
	material := &KeyMaterial{parts: values}
	var problems []error
	for _, signer := range []Signer{ClusterCA, EtcdCA, EtcdEventsCA, FrontProxyCA} {
		ca, err := parseCA(values[string(signer)])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", signer, err))
		}
		*material.CA(signer) = ca
	}
	account := values[ServiceAccount]
	material.ServiceAccountPub, material.ServiceAccountKey = account[publicPart], account[privatePart]
	material.EncryptionKey = values[Encryption][publicPart]
	return material, errors.Join(problems...)
}
