//go:build reproducible

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever checks a release has another folder, and nothing of what somebody compiled before.
func TestAReleaseHasTheSameBytesFromAnotherFolderWithoutACache(t *testing.T) {
	first := madeIn(t, filepath.Join(t.TempDir(), "checkout"))
	again := madeIn(t, filepath.Join(t.TempDir(), "another", "folder-with-a-longer-name"), "GOCACHE="+t.TempDir())
	if len(first) < 50 {
		t.Errorf("a release has %d files", len(first))
	}
	if diff := different(first, again); len(diff) > 0 {
		t.Errorf("these differ: %q", diff)
	}
}

// madeIn makes a release of the commit in a new checkout, and gives the sums of its files by their names.
func madeIn(t *testing.T, checkout string, environment ...string) map[string]string {
	t.Helper()
	run := func(folder, name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), environment...)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
		}
	}
	run("../..", "git", "clone", "--quiet", ".", checkout)
	run(checkout, "make", "release", "VERSION=v0.2.0")
	content, err := os.ReadFile(filepath.Join(checkout, "out", "release", sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{sumsFile: string(content)}
	for line := range strings.Lines(string(content)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[file] = sum
	}
	return sums
}
