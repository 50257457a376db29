package untrusted

import (
	"io"
	"slices"
	"strings"
)

// veiled is a body in which secrets are hidden while it is read, as that of a watch has no end. Only an end that a
// secret may begin with waits for what comes next; events end with no letter. An error of reading may quote what the
// server said last.
type veiled struct {
	io.ReadCloser
	secrets      []string
	hide, errors *strings.Replacer
	// ready may be read, held may be the begin of a secret.
	ready, held string
	err         error
}

// veil hides secrets in a body, and words in errors of reading it.
func veil(body io.ReadCloser, words *strings.Replacer, secrets []string) io.ReadCloser {
	return &veiled{ReadCloser: body, secrets: secrets, hide: hiding(slices.Clone(secrets)...), errors: words}
}

// Read implements io.Reader.
func (v *veiled) Read(p []byte) (int, error) {
	for len(p) > 0 && v.ready == "" && v.err == nil {
		n, err := v.ReadCloser.Read(p)
		text := v.hide.Replace(v.held + string(p[:n]))
		end := len(text)
		if err == nil {
			end -= begun(text, v.secrets)
		} else {
			v.err = without(v.errors, err)
		}
		v.ready, v.held = text[:end], text[end:]
	}
	n := copy(p, v.ready)
	v.ready = v.ready[n:]
	if v.ready == "" {
		return n, v.err
	}
	return n, nil
}

// begun is the length of the longest end of a text that is the begin of a secret, but not all of it.
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
