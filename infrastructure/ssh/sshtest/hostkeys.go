package sshtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

// HostKey is a key pair of a server, its private half in a file.
type HostKey struct {
	File   string
	Public string

	signer ssh.Signer
}

// HostKeys makes one host key of each type that servers have besides Ed25519, by the type.
func HostKeys(t *testing.T) map[string]HostKey {
	t.Helper()
	folder, keys := t.TempDir(), map[string]HostKey{}
	for kind, generate := range map[string]func() (crypto.Signer, error){
		ssh.KeyAlgoECDSA256: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		ssh.KeyAlgoECDSA384: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		ssh.KeyAlgoECDSA521: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
		ssh.KeyAlgoRSA:      func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
	} {
		private, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, kind)
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		keys[kind] = HostKey{File: file, Public: line(signer.PublicKey()), signer: signer}
	}
	return keys
}
