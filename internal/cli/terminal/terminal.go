// Package terminal makes texts of others fit for a terminal, and asks the person at it.
package terminal

import (
	"strings"
	"unicode"
)

// Plain is a text without characters that a terminal would obey: the author of a message must not control the screen of its
// reader.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
}
