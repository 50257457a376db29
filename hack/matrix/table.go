package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// outcome of a step or a spec.
type outcome string

const (
	passed        outcome = "passed"
	failedOutcome outcome = "FAILED"
	skipped       outcome = "skipped"
	notRun        outcome = "not run"
	// missed is the outcome of a figure that is not as wanted, and fails no run.
	missed outcome = "missed"
)

// row is one line of the table: a step, a spec of one, or a figure that is not there or not as wanted.
type row struct {
	Name    string
	Outcome outcome
	Took    time.Duration
	// Note is why it was skipped or not run, or where to read about the failure.
	Note string
}

// readReport gives a row for every spec of a ginkgo report that the label filter chose: ginkgo reports the others as
// skipped. A suite that failed before its specs may have written none.
func readReport(file string) ([]row, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("read the report %s: %w", file, err)
	}
	var rows []row
	for _, report := range reports {
		chosen, err := types.ParseLabelFilter(report.SuiteConfig.LabelFilter)
		if err != nil {
			return nil, fmt.Errorf("read the label filter in the report %s: %w", file, err)
		}
		for _, spec := range report.SpecReports {
			labels := slices.Concat(report.SuiteLabels, spec.Labels())
			if spec.LeafNodeType.Is(types.NodeTypeIt) && chosen(labels) || spec.Failed() {
				rows = append(rows, specRow(spec))
			}
		}
	}
	return rows, nil
}

func specRow(spec types.SpecReport) row {
	r := row{Name: "  " + name(spec), Took: spec.RunTime}
	switch {
	case spec.State.Is(types.SpecStatePassed):
		r.Outcome = passed
	case spec.State.Is(types.SpecStateSkipped) && spec.Failure.Message != "":
		r.Outcome, r.Note = skipped, firstLine(spec.Failure.Message)
	case spec.State.Is(types.SpecStateSkipped), spec.State.Is(types.SpecStatePending):
		r.Outcome, r.Note = notRun, "pending, interrupted, or an earlier step of its journey failed"
	default:
		r.Outcome, r.Note = failedOutcome, firstLine(spec.Failure.Message)
	}
	return r
}

func name(spec types.SpecReport) string {
	if text := spec.FullText(); text != "" {
		return text
	}
	return spec.LeafNodeType.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// writeTable writes the table, with sums at its end.
func writeTable(w io.Writer, commit string, rows []row) error {
	fmt.Fprintf(w, "\ncommit %s\n", commit)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TEST\tOUTCOME\tSECONDS\tNOTE")
	sums := map[outcome]int{}
	for _, r := range rows {
		sums[r.Outcome]++
		fmt.Fprintf(table, "%s\t%s\t%.1f\t%s\n", r.Name, r.Outcome, r.Took.Seconds(), r.Note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped, %d not run, %d missed\n",
		sums[passed], sums[failedOutcome], sums[skipped], sums[notRun], sums[missed])
	return err
}

// writeFailures writes again what failed: of a long output, people see the end first.
func writeFailures(w io.Writer, rows []row) error {
	for _, r := range rows {
		if r.Outcome != failedOutcome {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s  %s  %s\n", r.Outcome, r.Name, r.Note); err != nil {
			return err
		}
	}
	return nil
}
