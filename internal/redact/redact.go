// Package redact takes secrets out of texts that people are shown: messages of conditions, logs, reports.
package redact

import "regexp"

// Mark stands where a secret was.
const Mark = "<redacted>"

// secrets are kubeadm's tokens (their form is in k8s.io/cluster-bootstrap/token/api), JSON web tokens, PEM, base64 of some
// length, what is in front of the host in a URL, and what follows a telling word. What groups match stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*-----[^-]*(?:-----END [A-Z ]*-----)?`),
	regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)[^/?#\s]*(@)`),
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	regexp.MustCompile(`[A-Za-z0-9+/]{64,}={0,2}`),
	regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|authorization|api[-_]?key)["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*'|(?:bearer |basic )?\S+)`),
}

// Text returns a text without its secrets.
func Text(text string) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "${1}"+Mark+"${2}")
	}
	return text
}
