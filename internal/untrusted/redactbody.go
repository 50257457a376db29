package untrusted

import (
	"io"
	"slices"
	"strings"
)

// redactedBody hides secrets in a body while it is read: the body of a watch has no end. It keeps back the last
// bytes only while they may be the beginning of a secret. No event of a watch ends with such a beginning, so no event is delayed. An error of reading may quote what the
// server sent last, so it is redacted, too.
type redactedBody struct {
	io.ReadCloser
	secrets      []string
	hide, errors *strings.Replacer
	// ready may be read. held may be the beginning of a secret.
	ready, held string
	err         error
}

// redactBody hides secrets in a body, and words in the errors of reading it.
func redactBody(body io.ReadCloser, words *strings.Replacer, secrets []string) io.ReadCloser {
	return &redactedBody{ReadCloser: body, secrets: secrets, hide: hiding(slices.Clone(secrets)...), errors: words}
}

// Read implements io.Reader.
func (b *redactedBody) Read(p []byte) (int, error) {
	for len(p) > 0 && b.ready == "" && b.err == nil {
		n, err := b.ReadCloser.Read(p)
		text := b.hide.Replace(b.held + string(p[:n]))
		end := len(text)
		if err == nil {
			end -= begun(text, b.secrets)
		} else {
			b.err = without(b.errors, err)
		}
		b.ready, b.held = text[:end], text[end:]
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	if b.ready == "" {
		return n, b.err
	}
	return n, nil
}

// begun is the length of the longest end of a text that begins a secret without being all of it.
func begun(text string, secrets []string) int {
	longest := 0
	for _, secret := range secrets {
		for n := min(len(secret)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				longest = n
			}
		}
	}
	return longest
}
