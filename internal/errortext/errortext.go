// Package errortext turns errors, and other texts of any length, into texts for conditions and Events.
package errortext

import (
	"regexp"
	"strings"
)

var (
	// ownAddress is our own end of a connection in an error of package net, such as 10.0.0.1:40000->.
	ownAddress = regexp.MustCompile(`\S+->`)
	// presentTime is the present time in an error of package x509.
	presentTime = regexp.MustCompile(`current time \S+`)
)

// Steady is the text of an error without parts that differ each time. With them a condition would change with each try, and
// each change would cause the next reconcile.
func Steady(err error) string { return SteadyText(err.Error()) }

// SteadyText is Steady for a text.
func SteadyText(text string) string {
	return Short(presentTime.ReplaceAllString(ownAddress.ReplaceAllString(Short(text, longest), ""), "the present time"), longest)
}

// longest is how many bytes of an error a condition has. The error may quote an answer of any
// length.
const longest = 2048

// cut is the end of a text that was cut.
const cut = "…"

// Short cuts a text to at most so many bytes, between two letters, and ends it with "…" where that has room. Given its own result, it returns
// it unchanged. A text has no more letters than bytes, so the result also fits a limit that an API server counts in letters.
func Short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if most < len(cut) {
		return ""
	}
	return strings.ToValidUTF8(text[:most-len(cut)], "") + cut
}
