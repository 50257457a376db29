package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

const fuzzed = `package fuzzed

import "testing"

func FuzzNothing(f *testing.F) { f.Fuzz(func(*testing.T, bool) {}) }

func FuzzSeed(f *testing.F) {
	f.Add(true)
	f.Fuzz(func(t *testing.T, _ bool) { t.Fatal("the seed is to blame") })
}

func FuzzInput(f *testing.F) {
	f.Add(false)
	f.Fuzz(func(t *testing.T, input bool) {
		if input {
			t.Fatal("an input is to blame")
		}
	})
}
`

func TestATargetFailsByItsSeedsAndByInputsThatAreKept(t *testing.T) {
	for name, want := range map[string]struct{ fails, keeps bool }{
		"FuzzNothing": {},
		"FuzzSeed":    {fails: true},
		"FuzzInput":   {fails: true, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range map[string]string{"go.mod": "module fuzzed\n", "fuzzed_test.go": fuzzed} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := fuzz(t.Context(), target{pkg: "fuzzed", folder: folder, name: name}, 3*time.Second, t.TempDir())
			kept, _ := os.ReadDir(filepath.Join(folder, "testdata", "fuzz", name))
			if fails, keeps := err != nil, len(kept) > 0; fails != want.fails || keeps != want.keeps {
				t.Errorf("it ends with %v, and keeps %v", err, kept)
			}
		})
	}
}
