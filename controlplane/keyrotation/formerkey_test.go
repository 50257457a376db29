package keyrotation

import (
	"encoding/base64"
	"testing"
)

func header(text string) []byte {
	return []byte(base64.RawURLEncoding.EncodeToString([]byte(text)) + ".e30.c2ln")
}

func TestTheKeyOfATokenIsThatOfItsHeader(t *testing.T) {
	for name, test := range map[string]struct {
		token []byte
		want  string
	}{
		"a token":          {header(`{"alg":"ES256","kid":"key"}`), "key"},
		"without a key":    {header(`{"alg":"ES256"}`), ""},
		"no object":        {header(`"kid"`), ""},
		"no JSON":          {header(`{`), ""},
		"no base64":        {[]byte("%%.e30.c2ln"), ""},
		"an opaque token":  {[]byte("abcdef.0123456789abcdef"), ""},
		"an empty token":   {nil, ""},
		"a header alone":   {[]byte(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"key"}`))), ""},
		"a key of no text": {header(`{"alg":"ES256","kid":7}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keyOfToken(test.token); got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}

// Tenants write their Secrets themselves.
func FuzzKeysOfTokens(f *testing.F) {
	f.Add(header(`{"alg":"ES256","kid":"key"}`))
	f.Add([]byte("a.b.c"))
	f.Fuzz(func(t *testing.T, token []byte) {
		if key := keyOfToken(token); len(key) > 3*len(token) {
			t.Errorf("a key of %d bytes in a token of %d", len(key), len(token))
		}
	})
}
