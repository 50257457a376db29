package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTargetsAreFoundByTheirCode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a_test.go")
	code := `package a
import "testing"
func FuzzA(f *testing.F) {}
func FuzzHelper(t *testing.T) {}
func fuzzB(f *testing.F) {}
func FuzzC(f *testing.F, a int) {}
type s struct{}
func (s) FuzzD(f *testing.F) {}
func TestE(t *testing.T) {}
func FuzzF(f *testing.F) {}
`
	if err := os.WriteFile(path, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := namesIn(path); err != nil || !slices.Equal(names, []string{"FuzzA", "FuzzF"}) {
		t.Errorf("found %q, %v", names, err)
	}
}

// Where bytes come from outside, something is fuzzed.
func TestWhatReadsFromOutsideIsFuzzed(t *testing.T) {
	t.Chdir("../..")
	all, err := find(t.Context(), "./bootstrap/...", "./controlplane/...", "./infrastructure/...", "./internal/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{
		"bootstrap/apiserverlb/balancer", "bootstrap/apiserverlb/discovery", "bootstrap/cloudinit", "bootstrap/software/validation",
		"controlplane/patches", "controlplane/ports", "controlplane/revision", "infrastructure/hosts", "infrastructure/ssh", "internal/untrusted", "internal/versions",
	} {
		if !slices.ContainsFunc(all, func(t target) bool { return strings.HasSuffix(t.pkg, "/"+folder) }) {
			t.Errorf("%s has no target", folder)
		}
	}
}
