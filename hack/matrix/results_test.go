package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// inRepository makes a repository with a Makefile, and makes it the one that the test runs in.
func inRepository(t *testing.T, makefile string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("Makefile", []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(".gitignore", []byte("/out/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, "init", "--quiet")
	keep(t)
}

func keep(t *testing.T) {
	t.Helper()
	git(t, "add", ".")
	git(t, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=test")
}

func git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// printed is what a function writes to standard output.
func printed(t *testing.T, write func()) string {
	t.Helper()
	before := os.Stdout
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		var all bytes.Buffer
		_, _ = io.Copy(&all, reader)
		text <- all.String()
	}()
	os.Stdout = writer
	write()
	os.Stdout = before
	_ = writer.Close()
	return strings.Join(strings.Fields(<-text), " ")
}

const twoTargets = "good:\n\t@echo ran good\nbad:\n\t@echo ran bad; exit 1\n"

func TestARunShowsItsStepsAndThoseOfOtherPartsOnTheSameCommit(t *testing.T) {
	inRepository(t, twoTargets)
	l := list{name: "some", steps: []step{{name: "first", target: "good", usual: time.Minute}, {name: "second", target: "good", usual: time.Minute}}}
	for _, run := range []struct {
		part   string
		passes bool
		shows  string
	}{
		{"1/2", true, "1 passed, 0 failed, 0 skipped, 1 not run"},
		{"2/2", true, "2 passed, 0 failed, 0 skipped, 0 not run"},
	} {
		p, err := parsePart(run.part)
		if err != nil {
			t.Fatal(err)
		}
		out := printed(t, func() { err = l.run(t.Context(), p) })
		if (err == nil) != run.passes || !strings.Contains(out, run.shows) {
			t.Errorf("part %s: %v\n%s", run.part, err, out)
		}
	}
	if err := os.WriteFile("changed", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := printed(t, func() { _ = l.run(t.Context(), part{1, 2}) }); !strings.Contains(out, "1 passed, 0 failed, 0 skipped, 1 not run") {
		t.Errorf("a changed tree has results of the commit:\n%s", out)
	}
	keep(t)
	if out := printed(t, func() { _ = l.run(t.Context(), part{2, 2}) }); !strings.Contains(out, "1 passed, 0 failed, 0 skipped, 1 not run") {
		t.Errorf("a commit has results of another:\n%s", out)
	}
}

func TestAListThatFailsFastEndsWithItsFirstFailure(t *testing.T) {
	inRepository(t, twoTargets)
	steps := []step{{name: "first", target: "bad"}, {name: "second", target: "good"}}
	for failsFast, shows := range map[bool]string{true: "0 passed, 1 failed, 0 skipped, 1 not run", false: "1 passed, 1 failed, 0 skipped, 0 not run"} {
		var err error
		out := printed(t, func() {
			err = list{name: "some", steps: steps, failsFast: failsFast, figure: "some"}.run(t.Context(), part{})
		})
		if err == nil || !strings.Contains(out, shows) {
			t.Errorf("failsFast %t: %v\n%s", failsFast, err, out)
		}
		if measured, err := figures.Read("some"); err != nil || len(measured) > 0 {
			t.Errorf("a run that failed measured %v, %v", measured, err)
		}
	}
}

func TestARunThatPassedMeasuresItself(t *testing.T) {
	inRepository(t, twoTargets)
	l := list{name: "some", steps: []step{{name: "first", target: "good"}}, figure: "gate"}
	var err error
	out := printed(t, func() { err = l.run(t.Context(), part{}) })
	if err != nil || !strings.Contains(out, "figure gate_seconds ") || !strings.Contains(out, "figure gate_slowest_step_seconds ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out := printed(t, func() { err = showFigures([]string{"some"}) }); err != nil || !strings.Contains(out, "figure gate_seconds ") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := showFigures([]string{"other"}); err == nil || !strings.Contains(err.Error(), "make other") {
		t.Error(err)
	}
}
