package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
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

func TestEveryTargetThatWritesAReportOfGinkgoIsKnownToDoSo(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists() {
		for _, s := range l.steps {
			recipe := regexp.MustCompile(`(?m)^` + s.target + `:.*\n(?:\t.*\n)*`).FindString(string(makefile))
			if writes := strings.Contains(recipe, "-ginkgo.json-report="); writes != s.ginkgo {
				t.Errorf("make %s writes a report: %t, which the step %s says of itself: %t", s.target, writes, s.name, s.ginkgo)
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

// cleanedUp is what the program of the interrupted step says at its end.
const cleanedUp = "cleaned up"

func TestAnInterruptedStepCleansUp(t *testing.T) {
	s := reexec.NewStage(t)
	long := step{name: "long", target: "long", args: []string{"PROGRAM=" + s.Cast("step")}}
	s.Must(os.WriteFile("Makefile", []byte("long:\n\t@$(PROGRAM)\n"), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan row, 1)
	go func() { ended <- long.run(ctx, ".") }()
	program := s.Accept()
	interrupt()
	s.Hear(program, cleanedUp)
	s.Gone(program)
	if result := <-ended; result.outcome != failedOutcome {
		t.Errorf("the step %s", result.outcome)
	}
}

// TestMain is also the program that the interrupted step runs: it tells the test that it runs, and cleans up.
func TestMain(m *testing.M) {
	if reexec.Role() == "" {
		os.Exit(m.Run())
	}
	if err := cleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// cleanUp waits until it is interrupted, and then says what the test waits for; it ends with the test.
func cleanUp() error {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	test, err := reexec.Dial()
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
