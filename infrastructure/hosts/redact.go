package hosts

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redacted stands in messages where a secret was.
const Redacted = "<redacted>"

// secrets are what bootstrap data has that nobody else may see: kubeadm's tokens (their form is in
// k8s.io/cluster-bootstrap/token/api), JSON web tokens, PEM, base64 of some length, what is in front of the host
// in a URL, and what follows a telling word. What groups match stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*-----[^-]*(?:-----END [A-Z ]*-----)?`),
	regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)[^/?#\s]*(@)`),
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	regexp.MustCompile(`[A-Za-z0-9+/]{64,}={0,2}`),
	regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|authorization|api[-_]?key)["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*'|(?:bearer |basic )?\S+)`),
}

// redact takes secrets out of a text.
func redact(text string) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "${1}"+Redacted+"${2}")
	}
	return text
}

// tidy makes what a host said fit for a message: valid, printable, without secrets.
func tidy(text string) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return strings.TrimSpace(redact(text))
}

// maxLine is the length of one line of a host's in a message, in bytes.
const maxLine = 1000

// line makes of what a host said one line of a bounded length, fit for a message.
func line(text string, length int) string {
	text = tidy(strings.Join(strings.Fields(text), " "))
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "..."
}

// maxTail is the length of the end of an output in a message, in bytes.
const maxTail = 4096

// tail is the end of an output, fit for a message.
func tail(output []byte) string {
	text := tidy(string(output))
	if len(text) <= maxTail {
		return text
	}
	text = text[len(text)-maxTail:]
	for !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return "..." + text
}
