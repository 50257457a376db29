package shell

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func started(t *testing.T, o Options) *Shell {
	t.Helper()
	o.Env = append(o.Env, "PATH="+os.Getenv("PATH"))
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestCommandsShareAShell(t *testing.T) {
	folder := t.TempDir()
	s := started(t, Options{Folder: folder, Env: []string{"GIVEN=before"}})
	for _, test := range []struct {
		command string
		want    Result
	}{
		{"export A=one \\\n  B=\"two words\"", Result{}},
		{"echo $A, \"$B\", $GIVEN", Result{Output: "one, two words, before\n"}},
		{"pwd; ls not-there 2>/dev/null", Result{Status: 2, Output: folder + "\n"}},
		{"echo to stderr >&2", Result{Output: "to stderr\n"}},
		{"(exit 7)", Result{Status: 7}},
		{"cat", Result{}}, // It reads nothing, and above all not the commands to come.
		{"printf 'no end of the line'", Result{Output: "no end of the line"}},
		{"echo $? > file", Result{}},
		{"not-a-program", Result{Status: 127, Output: "not-a-program: command not found\n"}},
	} {
		got, err := s.Run(t.Context(), test.command)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != test.want.Status || !strings.HasSuffix(got.Output, test.want.Output) || test.want.Output == "" && got.Output != "" {
			t.Errorf("%s: %+v, want %+v", test.command, got, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "file")); err != nil {
		t.Error(err)
	}
}

func TestACommandThatEndsTheShellIsAnError(t *testing.T) {
	s := started(t, Options{})
	if result, err := s.Run(t.Context(), "echo last; exit 0"); err == nil || result.Output != "last\n" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestACommandThatDoesNotEndIsEnded(t *testing.T) {
	s := started(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Run(ctx, "sleep infinity"); err == nil || !strings.Contains(err.Error(), "did not end in its time") {
		t.Errorf("%v", err)
	}
}

func TestEndOfAText(t *testing.T) {
	for text, want := range map[string]string{"": "", "a\nb\nc\n": "b\nc", "a": "a"} {
		if got := End(text, 2); got != want {
			t.Errorf("the end of %q is %q, want %q", text, got, want)
		}
	}
}
