package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Credentials are what a user logs in with.
type Credentials struct {
	signer ssh.Signer
}

// ParseCredentials reads a private key without passphrase, in OpenSSH's or PEM's format, and the
// OpenSSH certificate of that key, which may be empty. No error contains anything of the key.
func ParseCredentials(privateKey, certificate []byte) (*Credentials, error) {
	signer, err := ssh.ParsePrivateKey(privateKey)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, errors.New("the private key is protected by a passphrase; store it without one")
	case err != nil:
		return nil, errors.New("the private key is not in OpenSSH's or PEM's format")
	}
	if len(bytes.TrimSpace(certificate)) == 0 {
		return &Credentials{signer: signer}, nil
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(certificate)
	if err != nil {
		return nil, fmt.Errorf("the certificate is not in OpenSSH's format, one line like id_ed25519-cert.pub: %w", err)
	}
	cert, ok := public.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("the certificate is a plain public key of type %s; sign it with ssh-keygen -s", public.Type())
	}
	if !bytes.Equal(cert.Key.Marshal(), signer.PublicKey().Marshal()) {
		return nil, errors.New("the certificate belongs to another private key")
	}
	if signer, err = ssh.NewCertSigner(cert, signer); err != nil {
		return nil, fmt.Errorf("use the certificate: %w", err)
	}
	return &Credentials{signer: signer}, nil
}

// ParseHostKey reads a public key as it is in /etc/ssh/ssh_host_ed25519_key.pub: type, base64, and an
// optional comment.
func ParseHostKey(line string) (ssh.PublicKey, error) {
	if strings.ContainsAny(line, "\n\r") {
		return nil, errors.New("must be one line, for example ssh-ed25519 AAAA")
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || len(rest) > 0 {
		return nil, errors.New("must be a public key as in /etc/ssh/ssh_host_ed25519_key.pub, for example ssh-ed25519 AAAA")
	}
	if _, isCertificate := key.(*ssh.Certificate); isCertificate {
		return nil, errors.New("must be a plain public key, not a certificate")
	}
	return key, nil
}

// pinned accepts the given host keys alone.
type pinned struct {
	keys []ssh.PublicKey
	// refused is the key that a server showed instead of a pinned one.
	refused *refusedKey
	// accepted is true once the server has proved a pinned host key.
	accepted bool
}

type refusedKey struct{ key ssh.PublicKey }

func (r *refusedKey) Error() string {
	return fmt.Sprintf("has the host key %s (%s), which is not among hostKeys", ssh.FingerprintSHA256(r.key), r.key.Type())
}

func (p *pinned) check(key ssh.PublicKey) error {
	for _, known := range p.keys {
		if bytes.Equal(known.Marshal(), key.Marshal()) {
			p.accepted = true
			return nil
		}
	}
	p.refused = &refusedKey{key: key}
	return p.refused
}

// algorithms has those of the pinned keys first, so that a server with several keys shows a pinned one. The others follow,
// so that a server without a pinned key shows its own, and is not taken for one that is away.
func (p *pinned) algorithms() []string {
	var first []string
	for _, key := range p.keys {
		first = append(first, algorithmsOf(key)...)
	}
	for _, algorithm := range ssh.SupportedAlgorithms().HostKeys {
		if !strings.Contains(algorithm, "-cert-v01@") {
			first = append(first, algorithm)
		}
	}
	var all []string
	for _, algorithm := range first {
		if !slices.Contains(all, algorithm) {
			all = append(all, algorithm)
		}
	}
	return all
}

// algorithmsOf are the signatures that a key of that type makes (RFC 8332 for RSA).
func algorithmsOf(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
}
