package hosts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/redact"
)

// Tidy makes a text from a host fit for a message: valid, printable, without secrets.
func Tidy(text string) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return strings.TrimSpace(redact.Text(text))
}

// MaxLine is the greatest length of a host's line in a message, in bytes.
const MaxLine = 1000

// Line makes a text from a host one line of at most length bytes, fit for a message.
func Line(text string, length int) string {
	return errortext.Short(Tidy(strings.Join(strings.Fields(text), " ")), length)
}

// maxTail is the length of the end of an output in a message, in bytes.
const maxTail = 4096

// Tail is the end of an output, fit for a message.
func Tail(output []byte) string {
	text := Tidy(string(output))
	if len(text) <= maxTail {
		return text
	}
	text = text[len(text)-maxTail:]
	for !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return "..." + text
}

// Named says for people what each thing is.
func Named(kind string, things []string) []string {
	var texts []string
	for _, thing := range things {
		texts = append(texts, kind+" "+Tidy(thing))
	}
	return texts
}
