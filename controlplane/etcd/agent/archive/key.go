package archive

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Key signs manifests. Only the tenant has it.
type Key struct {
	secret []byte
	id     string
}

// minKey and maxKey bound the bytes of a key.
const minKey, maxKey = 32, 1024

// NewKey takes the bytes of a file, without the white space around them.
func NewKey(secret []byte) (Key, error) {
	secret = bytes.TrimSpace(secret)
	if len(secret) < minKey || len(secret) > maxKey {
		return Key{}, fmt.Errorf("the key of manifests has %d bytes: it needs at least %d and at most %d", len(secret), minKey, maxKey)
	}
	k := Key{secret: bytes.Clone(secret)}
	sum := k.sum("key", nil)
	k.id = hex.EncodeToString(sum[:8])
	return k, nil
}

// ID names the key without telling it.
func (k Key) ID() string { return k.id }

// sum is the HMAC of bytes for one use.
func (k Key) sum(use string, of []byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	_, _ = fmt.Fprintf(h, "kok-etcd-agent %s\n", use)
	_, _ = h.Write(of)
	return h.Sum(nil)
}
