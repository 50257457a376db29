// Package errortext puts errors into words for conditions.
package errortext

import (
	"regexp"
	"strings"
)

var (
	// ownAddress is what package net says of our own end of a connection, such as 10.0.0.1:40000->.
	ownAddress = regexp.MustCompile(`\S+->`)
	// presentTime is what package x509 says of the moment in which it judged a certificate.
	presentTime = regexp.MustCompile(`current time \S+`)
)

// Steady is what an error says, without what is another one each time: a condition that had it would change with each
// try, and each change would be the reason for the next.
func Steady(err error) string { return SteadyText(err.Error()) }

// SteadyText is Steady of an error that is a text already.
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
