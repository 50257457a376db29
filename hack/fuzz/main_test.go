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

// fuzzed is a package whose targets leave a folder "ran" when they run, and "again" when they run once more.
const fuzzed = `package fuzzed

import (
	"flag"
	"os"
	"testing"
)

func begins() (first bool) {
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		return false
	}
	if os.Mkdir("ran", 0o700) == nil {
		return true
	}
	_ = os.Mkdir("again", 0o700)
	return false
}

func FuzzOnce(f *testing.F) {
	if begins() {
		f.Fatal("no input is to blame")
	}
	f.Fuzz(func(*testing.T, bool) {})
}

func FuzzSeed(f *testing.F) {
	begins()
	f.Add(true)
	f.Fuzz(func(t *testing.T, _ bool) { t.Fatal("the seed is to blame") })
}

func FuzzInput(f *testing.F) {
	begins()
	f.Fuzz(func(t *testing.T, input bool) {
		if input {
			t.Fatal("an input is to blame")
		}
	})
}
`

func TestWhatKeepsNoInputIsFuzzedOnceMore(t *testing.T) {
	for name, want := range map[string]struct{ fails, again bool }{
		"FuzzOnce":  {fails: false, again: true},
		"FuzzSeed":  {fails: true, again: true},
		"FuzzInput": {fails: true, again: false},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range map[string]string{"go.mod": "module fuzzed\n", "fuzzed_test.go": fuzzed} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := fuzz(t.Context(), target{pkg: "fuzzed", folder: folder, name: name}, time.Second)
			_, missing := os.Stat(filepath.Join(folder, "again"))
			if fails, again := err != nil, missing == nil; fails != want.fails || again != want.again {
				t.Errorf("it ends with %v, and it is %t that it was fuzzed once more", err, again)
			}
		})
	}
}
