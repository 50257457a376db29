// Package errortext turns errors into texts for conditions.
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
	return short(presentTime.ReplaceAllString(ownAddress.ReplaceAllString(short(text), ""), "the present time"))
}

// longest is how many bytes of an error a condition has. The error may quote an answer of any
// length.
const longest = 2048

func short(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}
