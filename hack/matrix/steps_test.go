package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestEveryStepMakesATargetOfTheMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([\w/-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[match[1]] = true
	}
	for _, l := range lists() {
		if !targets[l.name] {
			t.Errorf("there is no make %s", l.name)
		}
		for _, s := range l.steps {
			if !targets[s.target] {
				t.Errorf("%s has the step make %s, which there is not", l.name, s.target)
			}
		}
	}
}

func TestEveryLabelOfAStepIsOneOfTheSuite(t *testing.T) {
	suite, err := os.ReadFile("../../test/e2e/suite_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists() {
		for _, s := range l.steps {
			for _, label := range regexp.MustCompile(`\w+`).FindAllString(s.labels, -1) {
				if !strings.Contains(string(suite), `= "`+label+`"`) {
					t.Errorf("%s chooses specs by the label %s, which none has", s.name, label)
				}
			}
		}
	}
}

// socket is the variable with the socket that the program of the interrupted step tells the test by what it does.
const socket = "MATRIX_TEST_SOCKET"

const (
	patience  = 30 * time.Second
	cleanedUp = "cleaned up"
)

func TestAnInterruptedStepCleansUp(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv(socket, "socket")
	makefile := "long:\n\t@$(PROGRAM)\n"
	if err := os.WriteFile("Makefile", []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: "socket", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // It ends with the test.
	if err := listener.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan row, 1)
	long := step{name: "long", target: "long", args: []string{"PROGRAM=" + program}}
	go func() { ended <- long.run(ctx, ".") }()
	started, err := listener.Accept()
	if err != nil {
		t.Fatalf("the program did not start: %v", err)
	}
	defer started.Close() //nolint:errcheck // It ends with the test.
	interrupt()
	if err := started.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(started); err != nil || string(said) != cleanedUp {
		t.Fatalf("the program said %q: %v", said, err)
	}
	if result := <-ended; result.outcome != failedOutcome {
		t.Errorf("the step %s", result.outcome)
	}
}

// TestMain is also the program that the interrupted step runs: it tells the test that it runs, and cleans up.
func TestMain(m *testing.M) {
	if address := os.Getenv(socket); address != "" {
		if err := cleanUp(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// cleanUp waits until it is interrupted, and then says what the test waits for; it ends with the test.
func cleanUp(address string) error {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	test, err := net.Dial("unix", address)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, test)
	}()
	select {
	case <-interrupted.Done():
		_, err = io.WriteString(test, cleanedUp)
	case <-gone:
	}
	return errors.Join(err, test.Close())
}
