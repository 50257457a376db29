package signing

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// keyFile is a new key in a file; without a password it is not encrypted.
func keyFile(t *testing.T, curve elliptic.Curve, password []byte) string {
	t.Helper()
	private, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(curve, cryptoutils.StaticPasswordFunc(password))
	if err != nil {
		t.Fatal(err)
	}
	return written(t, private)
}

func written(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWhatAKeySignsIsVerifiedWithItsPublicKey(t *testing.T) {
	for name, password := range map[string][]byte{"a key with a password": []byte("secret"), "a key with an empty password": {}, "a key that is not encrypted": nil} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(PasswordVariable, string(password))
			key, err := Read(keyFile(t, elliptic.P256(), password))
			if err != nil {
				t.Fatal(err)
			}
			signed, err := key.Sign([]byte("content"))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := key.Sign([]byte("content")); err != nil || again != signed {
				t.Errorf("the same content has another signature, %v", err)
			}
			public, err := key.Public()
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(t, public, signed, "content"); err != nil {
				t.Error(err)
			}
			if err := verify(t, public, signed, "Content"); err == nil {
				t.Error("another content has the same signature")
			}
		})
	}
}

// verify is how sigstore's library verifies.
func verify(t *testing.T, public []byte, signed, content string) error {
	t.Helper()
	key, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(signed)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.VerifySignature(bytes.NewReader(raw), strings.NewReader(content))
}

func TestAKeyThatCannotSignIsRefused(t *testing.T) {
	ofAnotherKind, _, err := cryptoutils.GeneratePEMEncodedRSAKeyPair(2048, nil)
	if err != nil {
		t.Fatal(err)
	}
	encrypted := keyFile(t, elliptic.P256(), []byte("secret"))
	_, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file, password, want string
	}{
		"a wrong password":      {encrypted, "guess", "its password is taken from COSIGN_PASSWORD"},
		"an empty password":     {encrypted, "", "its password is taken from COSIGN_PASSWORD"},
		"no file":               {filepath.Join(t.TempDir(), "cosign.key"), "", "no such file"},
		"a folder":              {t.TempDir(), "", "is a directory"},
		"a file that is no key": {written(t, []byte("none")), "", "has no private key in PEM format"},
		"the public key":        {written(t, public), "", "has no private key in PEM format"},
		"an endless file":       {"/dev/zero", "", "it is no key"},
		"a key of another kind": {written(t, ofAnotherKind), "", "is no ECDSA key of the curve P-256"},
		"another curve":         {keyFile(t, elliptic.P384(), nil), "", "is no ECDSA key of the curve P-256"},
		"a key that is damaged": {written(t, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")), "", "read SIGNING_KEY="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(PasswordVariable, test.password)
			_, err := Read(test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "SIGNING_KEY") {
				t.Fatalf("%v does not say %q", err, test.want)
			}
			if test.password != "" && strings.Contains(err.Error(), test.password) {
				t.Errorf("%v has the password", err)
			}
		})
	}
	t.Run("no password where one is needed", func(t *testing.T) {
		t.Setenv(PasswordVariable, "") // puts back what was there
		if err := os.Unsetenv(PasswordVariable); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(encrypted); err == nil || !strings.Contains(err.Error(), "has to be in the environment, as COSIGN_PASSWORD") {
			t.Error(err)
		}
	})
}
