package hosts

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gossh "golang.org/x/crypto/ssh"
)

func TestKeyFilesThatNobodyCanLogInWithAreRefused(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := gossh.MarshalPrivateKeyWithPassphrase(private, "", []byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"a key with a passphrase":    {pem.EncodeToMemory(locked), "is protected by a passphrase"},
		"a public key":               {[]byte(pinnedKey + "\n"), "is not in OpenSSH's or PEM's format"},
		"a file that is much larger": {make([]byte, maxKeyFile+1), "is no private key"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readKey(file, "seven-ssh"); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := readKey(filepath.Join(t.TempDir(), "none"), "seven-ssh"); err == nil {
		t.Error("a file that is not there is read")
	}
}
