// Command matrix runs every test of the project, goes on after a failure, and ends with a table of
// what passed, failed, was skipped and why, and was not run. It is make test-all.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// step is one make target of the matrix.
type step struct {
	target string
	args   []string
	// report is the JSON report that it writes, when each of its specs gets a row.
	report string
}

const out = "out/test-all"

func steps() []step {
	report := filepath.Join(out, "e2e.json")
	return []step{
		{target: "lint"},
		{target: "verify"},
		{target: "test-unit"},
		{target: "test-envtest"},
		{target: "test-lb"},
		{target: "test-lab"},
		{target: "test-e2e", args: []string{"E2E_LABELS=gating || full", "E2E_TIMEOUT=6h", "E2E_REPORT=" + report}, report: report},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context) (failed bool, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return false, err
	}
	var table []row
	for _, s := range steps() {
		result := row{name: "make " + s.target, outcome: notRun, note: "interrupted"}
		if ctx.Err() == nil {
			result = s.run(ctx)
		}
		table = append(table, result)
		if s.report != "" && result.outcome != notRun {
			specs, err := readReport(s.report)
			if err != nil {
				return true, err
			}
			table = append(table, specs...)
		}
	}
	for _, r := range table {
		failed = failed || r.outcome != passed && r.outcome != skipped
	}
	return failed, writeTable(os.Stdout, commit(), table)
}

// run makes the target. Its output is shown and kept.
func (s step) run(ctx context.Context) row {
	result := row{name: "make " + s.target}
	log := filepath.Join(out, s.target+".log")
	file, err := os.Create(log)
	if err != nil {
		result.outcome, result.note = notRun, err.Error()
		return result
	}
	defer file.Close() //nolint:errcheck // A log that lost its end does not change the outcome.
	if s.report != "" {
		if err := os.RemoveAll(s.report); err != nil {
			result.outcome, result.note = notRun, err.Error()
			return result
		}
	}
	fmt.Printf("\n==== make %s\n", s.target)
	cmd := exec.CommandContext(ctx, "make", append([]string{s.target}, s.args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, file), io.MultiWriter(os.Stderr, file)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	began := time.Now()
	err = cmd.Run()
	result.took = time.Since(began)
	if err != nil {
		result.outcome, result.note = failedOutcome, log
		return result
	}
	result.outcome = passed
	return result
}

// commit names what was tested; "+" after it means that the tree has changes of its own.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changes, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		name += "+"
	}
	return name
}
