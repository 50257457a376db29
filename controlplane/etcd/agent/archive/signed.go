package archive

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Format is the newest version of the format that this program reads, and the one that it writes.
const Format = 1

// MaxManifest bounds the bytes of a manifest and of a verification.
const MaxManifest = 16 << 10

// signed is the file of a manifest or of a verification. Body stays as its bytes are in the file, for they are what is signed.
type signed struct {
	Format int             `json:"format"`
	Body   json.RawMessage `json:"body"`
	KeyID  string          `json:"keyID"`
	HMAC   string          `json:"hmac"`
}

// Uses of a key.
const (
	useManifest     = "manifest"
	useVerification = "verification"
)

// sign writes a file.
func (k Key) sign(use string, body any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write a %s: %w", use, err)
	}
	file, err := json.Marshal(signed{Format: Format, Body: raw, KeyID: k.id, HMAC: hex.EncodeToString(k.sum(use, raw))})
	if err != nil {
		return nil, fmt.Errorf("write a %s: %w", use, err)
	}
	if len(file) >= MaxManifest {
		return nil, fmt.Errorf("write a %s: it has %d bytes, and %d is the most", use, len(file), MaxManifest)
	}
	return append(file, '\n'), nil
}

// open reads a file into a body, and refuses what is not signed by this key.
func (k Key) open(use, name string, file []byte, body any) error {
	if len(file) > MaxManifest {
		return Refuse(Tampered, "the %s %s has more than %d bytes: %s", use, name, MaxManifest, takeAnother)
	}
	var s signed
	if err := json.Unmarshal(file, &s); err != nil {
		if unfinished(file) {
			return Refuse(Truncated, "the %s %s ends too early: %s", use, name, takeAnother)
		}
		return Refuse(Tampered, "the %s %s is not what was written (%v): %s", use, name, err, takeAnother)
	}
	switch {
	case s.Format > Format:
		return Refuse(TooNew, "the %s %s has format %d, and this program reads up to %d: use a newer kok-etcd-agent", use, name, s.Format, Format)
	case s.KeyID != k.id:
		return Refuse(Foreign, "the %s %s is signed by key %.32q, and the one that is given is %s: give the key of the tenant that the snapshot is of", use, name, s.KeyID, k.id)
	}
	sum, err := hex.DecodeString(s.HMAC)
	if err != nil || !hmac.Equal(sum, k.sum(use, s.Body)) {
		return Refuse(Tampered, "the %s %s is not what this tenant wrote, for its HMAC is wrong: %s", use, name, takeAnother)
	}
	if s.Format < 1 {
		return Refuse(Tampered, "the %s %s has no format that there ever was: %s", use, name, takeAnother)
	}
	if err := json.Unmarshal(s.Body, body); err != nil {
		return Refuse(Tampered, "the %s %s cannot be read (%v): %s", use, name, err, takeAnother)
	}
	return nil
}

// unfinished reports whether a file is the beginning of JSON.
func unfinished(file []byte) bool {
	if json.Valid(file) {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	for {
		if _, err := decoder.Token(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}
