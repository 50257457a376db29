package main

import (
	"regexp"
	"testing"
)

func TestFocusMeetsItsNamesAlone(t *testing.T) {
	expression := regexp.MustCompile(focus([]string{"[sig-apps] Job runs (twice) [Conformance]", "[sig-apps] CronJob runs [Conformance]"}))
	for text, want := range map[string]bool{
		"Kubernetes e2e suite [sig-apps] Job runs (twice) [Conformance]":          true,
		"Kubernetes e2e suite [sig-apps] CronJob runs [Conformance]":              true,
		"Kubernetes e2e suite [sig-apps] CronJob runs [Conformance] and more":     false,
		"Kubernetes e2e suite [sig-apps] Job runs twice [Conformance]":            false,
		"Kubernetes e2e suite another[sig-apps] CronJob runs [Conformance]":       false,
		"Kubernetes e2e suite [sig-apps] Job runs (twice) [Serial] [Conformance]": false,
	} {
		if got := expression.MatchString(text); got != want {
			t.Errorf("%q is met: %v, want %v", text, got, want)
		}
	}
}
