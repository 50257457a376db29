// Command matrix runs a list of the project's tests and ends with a table of what passed, failed, was skipped and why, and
// was not run, with the seconds of each, and with every figure that was measured. It is make test, make test-all, make bench,
// make bench-upgrade, make bench-install, make bench-security, make bench-keys and make bench-house.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

func main() { program.Run("matrix", command(), "") }

func command() *cobra.Command {
	known := strings.Join(names(lists()), ", ")
	cmd := &cobra.Command{Use: "matrix", Short: "Run a list of tests, or show what the last run measured"}
	run := &cobra.Command{Use: "run LIST", Short: "Run a list of tests: " + known, Args: cobra.ExactArgs(1)}
	partText := run.Flags().String("part", "", "run one part of the list alone, such as 3/20, and show it with those that ran before on the same commit")
	run.RunE = func(cmd *cobra.Command, args []string) error {
		all := lists()
		i := slices.IndexFunc(all, func(l list) bool { return l.name == args[0] })
		if i < 0 {
			return fmt.Errorf("there is no list %q; there are %s", args[0], known)
		}
		chosen, err := parsePart(*partText)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
		defer stop()
		return all[i].run(ctx, chosen)
	}
	show := &cobra.Command{
		Use: "figures STEP...", Short: "Show what the last runs of steps measured", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return showFigures(args) },
	}
	cmd.AddCommand(run, show)
	return cmd
}

var errFailed = errors.New("not everything passed")

// run runs the steps of a part, and shows the results of all steps on this commit.
func (l list) run(ctx context.Context, p part) error {
	chosen, err := p.choose(l.steps)
	if err != nil {
		return err
	}
	folder := filepath.Join("out", l.name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	tested, began := commit(), time.Now()
	var results []result
	failed := false
	for _, s := range l.steps {
		if !chosen[s.name] {
			found, err := earlier(folder, s, tested)
			if err != nil {
				return err
			}
			results = append(results, found)
			continue
		}
		var r result
		switch {
		case ctx.Err() != nil:
			r = s.notRun(tested, "interrupted")
		case failed && l.failsFast:
			r = s.notRun(tested, "a step before it failed")
		default:
			r = s.result(ctx, folder, tested)
		}
		if err := r.save(folder, s); err != nil {
			return err
		}
		results = append(results, r)
		failed = failed || r.failed()
	}
	own, err := l.ownFigures(time.Since(began), results)
	if err != nil {
		return err
	}
	lacks, err := l.show(tested, results, own)
	if err == nil && (failed || lacks) {
		err = errFailed
	}
	return err
}

// ownFigures are what the run itself measured, if all of it passed; they are kept for who asks later.
func (l list) ownFigures(took time.Duration, results []result) ([]figures.Figure, error) {
	if l.figure == "" || slices.ContainsFunc(results, result.failed) {
		return nil, nil
	}
	slowest := slices.MaxFunc(results, func(a, b result) int { return cmp.Compare(a.Rows[0].Took, b.Rows[0].Took) })
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) }
	own := []figures.Figure{
		figures.New(l.figure+"_seconds", seconds(took), "s"),
		figures.New(l.figure+"_slowest_step_seconds", seconds(slowest.Rows[0].Took), "s for "+slowest.Rows[0].Name),
	}
	return own, figures.Write(l.name, own)
}

// show writes the table and the figures. Once every step ran, it reports whether a figure is missing, or misses a target that has to be met.
func (l list) show(tested string, results []result, own []figures.Figure) (lacks bool, err error) {
	var table []row
	var measured []figures.Figure
	for _, r := range results {
		table, measured = append(table, r.Rows...), append(measured, r.Figures...)
	}
	if measured, err = withSums(append(measured, own...)); err != nil {
		return false, err
	}
	if !slices.ContainsFunc(results, func(r result) bool { return !r.ran() }) {
		rows, err := judge(l.figures, measured)
		if err != nil {
			return false, err
		}
		table, lacks = append(table, rows...), slices.ContainsFunc(rows, func(r row) bool { return r.Outcome != missed })
	}
	if err := writeTable(os.Stdout, tested, table); err != nil {
		return lacks, err
	}
	if err := writeFigures(os.Stdout, measured); err != nil {
		return lacks, err
	}
	return lacks, writeFailures(os.Stdout, table)
}

// result runs a step, and reads what it reported.
func (s step) result(ctx context.Context, folder, tested string) result {
	r := result{Commit: tested, Rows: []row{s.run(ctx, folder)}}
	if !r.ran() {
		return r
	}
	reported, err := s.reported()
	found, figuresErr := figures.Read(s.name)
	r.Rows, r.Figures = append(r.Rows, reported...), found
	if err = errors.Join(err, figuresErr); err != nil {
		r.Rows = append(r.Rows, row{Name: "  what it reports", Outcome: failedOutcome, Note: err.Error()})
	}
	return r
}

func names(all []list) []string {
	var found []string
	for _, l := range all {
		found = append(found, l.name)
	}
	return found
}
