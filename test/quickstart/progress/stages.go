package progress

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"
)

// Stage is one part of a longer work.
type Stage struct {
	Name string
	Run  func(ctx context.Context) error
}

// Stages runs one stage after the other and remembers how long each took.
type Stages struct {
	Log  *Log
	rows []row
}

type row struct {
	name string
	took time.Duration
}

// Add records a stage that is over.
func (s *Stages) Add(name string, took time.Duration) { s.rows = append(s.rows, row{name, took}) }

// Run runs the stages until one fails. The error names the stage.
func (s *Stages) Run(ctx context.Context, stages ...Stage) error {
	for _, stage := range stages {
		s.Log.Title("== " + stage.Name)
		began := time.Now()
		err := stage.Run(ctx)
		s.Add(stage.Name, time.Since(began))
		if err != nil {
			return fmt.Errorf("%s: %w", stage.Name, err)
		}
	}
	return nil
}

// Total is the time of all stages.
func (s *Stages) Total() time.Duration {
	var total time.Duration
	for _, r := range s.rows {
		total += r.took
	}
	return total
}

// Table prints the time of each stage.
func (s *Stages) Table() error {
	table := tabwriter.NewWriter(s.Log, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "STAGE\tSECONDS")
	for _, r := range s.rows {
		fmt.Fprintf(table, "%s\t%.1f\n", r.name, r.took.Seconds())
	}
	fmt.Fprintf(table, "total\t%.1f\n", s.Total().Seconds())
	return table.Flush()
}
