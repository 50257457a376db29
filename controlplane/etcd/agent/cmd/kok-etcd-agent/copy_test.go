package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

func TestPrepareCopiesItsProgram(t *testing.T) {
	self := reexec.NewStage(t).Cast(role)
	folder := t.TempDir()
	target := filepath.Join(folder, programName)
	copied := func() os.FileInfo {
		t.Helper()
		out, errs, err := execute(t, "prepare", "--data-dir=none", "--termination-log=log", "--copy-to="+folder)
		if err != nil || errs != "" || out != "none: Empty\n" {
			t.Errorf("it ended with %v: %s%s", err, out, errs)
		}
		info, err := os.Stat(target)
		must(t, err)
		if same, err := sameProgram(self, target); err != nil || !same {
			t.Errorf("the copy is another one: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
		return info
	}
	first := copied()
	// One that is there is left alone.
	if again := copied(); !os.SameFile(first, again) {
		t.Error("it is copied again")
	}
	for name, change := range map[string]func(){
		"another program":        func() { must(t, os.WriteFile(target, []byte("old"), 0o755)) },
		"one that cannot be run": func() { must(t, os.Chmod(target, 0o644)) },
		"what one left that was ended": func() {
			must(t, os.Remove(target))
			must(t, os.WriteFile(filepath.Join(folder, "."+programName), []byte("half"), 0o600))
		},
	} {
		change()
		if after := copied(); after.Mode().Perm() != 0o755 {
			t.Errorf("%s: it has mode %s", name, after.Mode())
		}
	}
}

// Without it the container that needs it would never start: kubelet tries again. The manager is told of the data all the same.
func TestPrepareFailsWhereItsProgramIsNotCopied(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	out, _, err := execute(t, "prepare", "--data-dir=none", "--termination-log=log", "--copy-to=no/folder")
	if err == nil || !strings.Contains(err.Error(), "copy this program to no/folder: ") || out != "none: Empty\n" {
		t.Errorf("it ended with %v: %s", err, out)
	}
	if message, err := os.ReadFile("log"); err != nil || !strings.Contains(string(message), `"Empty"`) {
		t.Errorf("the manager reads %s: %v", message, err)
	}
}
