package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/processgroup"
)

// stopLimit is the time that tests which are interrupted have to stop the API servers that they started.
const stopLimit = 2 * time.Minute

// step is a test that is run alone.
type step struct {
	// pkg is its package, from the top folder of the module. test is its name, after a slash that of a subtest.
	pkg, test string
	// race is true for a test that needs the race detector, envtest for one that carries that build tag.
	race, envtest bool
}

// String is the command that runs it.
func (s step) String() string { return "go " + strings.Join(s.arguments("test"), " ") }

// arguments are those of the go command that runs it.
func (s step) arguments(command ...string) []string {
	if s.race {
		command = append(command, "-race")
	}
	return append(command, append(s.tags(), "-run="+s.pattern(), s.pkg)...)
}

// tags are the build tags of its package.
func (s step) tags() []string {
	if s.envtest {
		return []string{"-tags=envtest"}
	}
	return nil
}

// pattern chooses the test and no other.
func (s step) pattern() string {
	parts := strings.Split(s.test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// compile checks that the package, all that it imports, and its tests compile: a mistake that the compiler finds needs no
// test.
func (s step) compile(ctx context.Context, dir string, log io.Writer) error {
	arguments := append(append([]string{"vet"}, s.tags()...), s.pkg)
	cmd := command(ctx, dir, false, arguments...)
	cmd.Stderr = log
	if err := processgroup.Run(cmd, stopLimit); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	return nil
}

// run runs the test in a folder and reports whether it passed. An error means that it neither passed nor failed.
func (s step) run(ctx context.Context, dir string, log io.Writer) (passed bool, err error) {
	cmd := command(ctx, dir, s.race, s.arguments("test", "-json", "-count=1", "-timeout=10m")...)
	cmd.Stderr = log
	events, out := io.Pipe()
	cmd.Stdout = out
	ended := make(chan error, 1)
	go func() {
		ended <- processgroup.Run(cmd, stopLimit)
		_ = out.Close()
	}()
	action, readErr := actionOf(events, log, s.test)
	_ = events.Close()
	runErr := <-ended
	if err := errors.Join(ctx.Err(), readErr); err != nil {
		return false, err
	}
	switch {
	case action == "pass":
		return true, runErr
	case action == "fail":
		return false, nil
	case runErr != nil:
		return false, fmt.Errorf("it did not run: %w", runErr)
	}
	return false, errors.New("it did not run: it is not there, or is skipped")
}

// command is one of the go command, with the environment that the Makefile gives tests. The race detector needs cgo.
func command(ctx context.Context, dir string, race bool, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = dir
	cgo := "CGO_ENABLED=0"
	if race {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo)
	return cmd
}

// actionOf reads the events of go test, as cmd/test2json documents them, keeps what tests print, and returns what became of
// one test; empty when it did not run.
func actionOf(events io.Reader, log io.Writer, test string) (action string, err error) {
	for decoder := json.NewDecoder(events); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return action, nil
		} else if err != nil {
			return action, fmt.Errorf("read the events of go test: %w", err)
		}
		if _, err := io.WriteString(log, event.Output); err != nil {
			return action, err
		}
		if event.Test == test && (event.Action == "pass" || event.Action == "fail" || event.Action == "skip") {
			action = event.Action
		}
	}
}
