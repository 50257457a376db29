package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// outcome of a break.
type outcome string

const (
	caught    outcome = "caught"
	notCaught outcome = "NOT CAUGHT"
	// faulty is a break that says nothing of its test: it does not apply or compile, or the test does not pass without it.
	faulty outcome = "FAULTY"
	notRun outcome = "not run"
)

type row struct {
	name    string
	outcome outcome
	took    time.Duration
	// note is the test, or what is wrong.
	note string
}

// try tries breaks one after the other, until the context ends.
func try(ctx context.Context, tree *worktree, chosen []mistake) []row {
	var rows []row
	proven := map[step]error{}
	for _, m := range chosen {
		r := row{name: m.name, outcome: notRun, note: "interrupted"}
		if ctx.Err() == nil {
			r = tryOne(ctx, tree, m, proven)
			fmt.Printf("%-10s %6.1f s  %s: %s\n", r.outcome, r.took.Seconds(), r.name, r.note)
		}
		rows = append(rows, r)
	}
	return rows
}

func tryOne(ctx context.Context, tree *worktree, m mistake, proven map[step]error) row {
	began := time.Now()
	r := row{name: m.name, outcome: faulty}
	passed, err := broken(ctx, tree, m, proven)
	r.took = time.Since(began)
	switch {
	case ctx.Err() != nil:
		r.outcome, r.note = notRun, "interrupted"
	case err != nil:
		r.note = err.Error()
	case passed:
		r.outcome, r.note = notCaught, m.caughtBy.String()
	default:
		r.outcome, r.note = caught, m.caughtBy.String()
	}
	return r
}

// broken breaks the product and reports whether the test passes nevertheless. It keeps in proven which tests pass when nothing
// is broken.
func broken(ctx context.Context, tree *worktree, m mistake, proven map[step]error) (passed bool, err error) {
	log, err := os.Create(filepath.Join(tree.logs, m.name+".log"))
	if err != nil {
		return false, err
	}
	defer log.Close() //nolint:errcheck // A log that lost its end does not change the outcome.
	if err := tree.reset(); err != nil {
		return false, err
	}
	s := m.caughtBy
	if _, known := proven[s]; !known {
		proven[s] = unbroken(ctx, tree, s, log)
	}
	if err := proven[s]; err != nil {
		return false, err
	}
	if err := tree.apply(m.patch); err != nil {
		return false, fmt.Errorf("the patch does not apply: %w", err)
	}
	if err := s.compile(ctx, tree.dir, log); err != nil {
		return false, fmt.Errorf("the broken product does not compile, see %s: %w", log.Name(), err)
	}
	if passed, err = s.run(ctx, tree.dir, log); err != nil {
		return false, fmt.Errorf("%s, see %s: %w", s, log.Name(), err)
	}
	return passed, nil
}

// unbroken wants a test to pass when nothing is broken.
func unbroken(ctx context.Context, tree *worktree, s step, log *os.File) error {
	passed, err := s.run(ctx, tree.dir, log)
	if err == nil && !passed {
		err = errors.New("it fails")
	}
	if err != nil {
		return fmt.Errorf("without the break %s, see %s: %w", s, log.Name(), err)
	}
	return nil
}

// writeTable writes a line for each break, and sums.
func writeTable(w io.Writer, commit string, rows []row) error {
	fmt.Fprintf(w, "\ncommit %s\n", commit)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BREAK\tOUTCOME\tSECONDS\tNOTE")
	sums := map[outcome]int{}
	for _, r := range rows {
		sums[r.outcome]++
		fmt.Fprintf(table, "%s\t%s\t%.1f\t%s\n", r.name, r.outcome, r.took.Seconds(), r.note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d caught, %d not caught, %d faulty, %d not run\n\n", sums[caught], sums[notCaught], sums[faulty], sums[notRun])
	return err
}
