// Package signing signs what is published with the releaser's key, in the form that cosign verifies.
package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// PasswordVariable is the variable of the environment that cosign too takes the key's password from.
const PasswordVariable = "COSIGN_PASSWORD"

// largest is more than any file of a key has.
const largest = 64 << 10

// Key is a private key that signs what is published.
type Key struct{ private *ecdsa.PrivateKey }

// Read reads a key in PEM format: one that cosign generate-key-pair writes, whose password is in the environment, or one
// that is not encrypted. It has to be an ECDSA key of the curve P-256, which is what cosign makes and verifies by default.
func Read(file string) (*Key, error) {
	content, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("SIGNING_KEY: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, fmt.Errorf("SIGNING_KEY=%s has no private key in PEM format: cosign generate-key-pair writes one", file)
	}
	password, given := os.LookupEnv(PasswordVariable)
	if encrypted := strings.HasPrefix(block.Type, "ENCRYPTED"); encrypted && !given {
		return nil, fmt.Errorf("SIGNING_KEY=%s is encrypted: its password has to be in the environment, as %s", file, PasswordVariable)
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(content, cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		return nil, fmt.Errorf("read SIGNING_KEY=%s: %w; its password is taken from %s", file, err, PasswordVariable)
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("SIGNING_KEY=%s is no ECDSA key of the curve P-256: cosign generate-key-pair writes one", file)
	}
	return &Key{private: key}, nil
}

// read reads a file, unless it is larger than any key.
func read(file string) ([]byte, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(opened, largest+1))
	if err := errors.Join(err, opened.Close()); err != nil {
		return nil, err
	}
	if len(content) > largest {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no key", file, largest)
	}
	return content, nil
}

// Sign gives the signature of a content, in base64. The same content has the same signature (RFC 6979), so that a release
// that is made again has the same bytes; the library of sigstore would sign with random numbers.
func (k *Key) Sign(content []byte) (string, error) {
	sum := sha256.Sum256(content)
	signature, err := k.private.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

// Public is the key, in PEM format, that signatures are verified with.
func (k *Key) Public() ([]byte, error) { return cryptoutils.MarshalPublicKeyToPEM(k.private.Public()) }
