package hosts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/redact"
)

// Redacted stands in messages where a secret was. Bootstrap data has secrets, and messages are read by
// others.
const Redacted = redact.Mark

// tidy makes a text from a host fit for a message: valid, printable, without secrets.
func tidy(text string) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return strings.TrimSpace(redact.Text(text))
}

// maxLine is the greatest length of a host's line in a message, in bytes.
const maxLine = 1000

// line makes a text from a host one line of at most maxLine bytes, fit for a message.
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
