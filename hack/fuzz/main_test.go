package main

import (
	"slices"
	"strings"
	"testing"
)

// Where bytes come from outside, something is fuzzed.
func TestWhatReadsFromOutsideIsFuzzed(t *testing.T) {
	t.Chdir("../..")
	all, err := find(t.Context(), "./bootstrap/...", "./controlplane/...", "./infrastructure/...", "./internal/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{
		"bootstrap/apiserverlb/balancer", "bootstrap/apiserverlb/discovery", "bootstrap/cloudinit", "bootstrap/software/validation",
		"controlplane/patches", "controlplane/ports", "controlplane/revision", "infrastructure/hosts", "infrastructure/hosts/koksoftware", "infrastructure/hosts/probe", "infrastructure/hosts/records", "infrastructure/ssh", "internal/untrusted", "internal/versions",
	} {
		if !slices.ContainsFunc(all, func(t target) bool { return strings.HasSuffix(t.pkg, "/"+folder) }) {
			t.Errorf("%s has no target", folder)
		}
	}
}
