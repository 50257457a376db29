// Command matrix runs a list of the project's tests, goes on after a failure, and ends with a table of what passed,
// failed, was skipped and why, and was not run, and with every figure that was measured. It is make test-all and
// make bench-upgrade.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	failed, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (failed bool, err error) {
	all := lists()
	index := slices.IndexFunc(all, func(l list) bool { return len(args) == 1 && l.name == args[0] })
	if index < 0 {
		return false, fmt.Errorf("usage: matrix LIST, which is one of %s", strings.Join(names(all), ", "))
	}
	logs := filepath.Join("out", all[index].name)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return false, err
	}
	var table []row
	var measured []figures.Figure
	for _, s := range all[index].steps {
		result := row{name: s.title(), outcome: notRun, note: "interrupted"}
		if ctx.Err() == nil {
			result = s.run(ctx, logs)
		}
		table = append(table, result)
		if result.outcome == notRun {
			continue
		}
		specs, err := s.specs()
		found, figuresErr := figures.Read(s.name)
		table, measured = append(table, specs...), append(measured, found...)
		if err = errors.Join(err, figuresErr); err != nil {
			table = append(table, row{name: "  what it reports", outcome: failedOutcome, note: err.Error()})
		}
	}
	table = append(table, missing(all[index].figures, measured)...)
	for _, r := range table {
		failed = failed || r.outcome != passed && r.outcome != skipped
	}
	if err := writeTable(os.Stdout, commit(), table); err != nil {
		return true, err
	}
	measured, err = withSums(measured)
	if err != nil {
		return true, err
	}
	return failed, writeFigures(os.Stdout, measured)
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
