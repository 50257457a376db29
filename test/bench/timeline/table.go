package timeline

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one line of a table: a time that is read from each record. ok is false where a record has none.
type Row struct {
	Title string
	At    func(*Timeline) (at time.Duration, ok bool)
}

// First is when the first instance of the components reached the stage.
func First(title string, stage Stage, components ...string) Row {
	return Row{title, func(t *Timeline) (time.Duration, bool) {
		times := t.Times(stage, components...)
		if len(times) == 0 {
			return 0, false
		}
		return times[0], true
	}}
}

// Last is when the last instance of the components reached the stage.
func Last(title string, stage Stage, components ...string) Row {
	return Row{title, func(t *Timeline) (time.Duration, bool) {
		times := t.Times(stage, components...)
		if len(times) == 0 {
			return 0, false
		}
		return times[len(times)-1], true
	}}
}

// Quorum is when every component had the stage reached by more than half of its instances.
func Quorum(title string, stage Stage, components ...string) Row {
	return Row{title, func(t *Timeline) (time.Duration, bool) {
		var latest time.Duration
		for _, component := range components {
			times := t.Times(stage, component)
			if len(times) == 0 {
				return 0, false
			}
			latest = max(latest, times[len(times)/2])
		}
		return latest, true
	}}
}

// Column is a group of runs under one heading, with their median where there is more than one.
type Column struct {
	Heading string
	Runs    []*Timeline
}

// Print writes a table: a line a row, the runs of each column beside each other. Seconds since the start.
func Print(w io.Writer, rows []Row, columns ...Column) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	heading := []string{"seconds"}
	for _, c := range columns {
		for i := range c.Runs {
			heading = append(heading, fmt.Sprintf("%s %d", c.Heading, i+1))
		}
		if len(c.Runs) > 1 {
			heading = append(heading, "median")
		}
		heading = append(heading, "|")
	}
	fmt.Fprintln(table, strings.Join(heading, "\t")+"\t")
	for _, row := range rows {
		cells := []string{row.Title}
		for _, c := range columns {
			cells = append(append(cells, c.cells(row)...), "|")
		}
		fmt.Fprintln(table, strings.Join(cells, "\t")+"\t")
	}
	return table.Flush()
}

func (c Column) cells(row Row) []string {
	var cells []string
	var times []time.Duration
	for _, run := range c.Runs {
		at, ok := row.At(run)
		if !ok {
			cells = append(cells, "")
			continue
		}
		times = append(times, at)
		cells = append(cells, seconds(at))
	}
	if len(c.Runs) > 1 {
		if len(times) == 0 {
			return append(cells, "")
		}
		cells = append(cells, seconds(Median(times)))
	}
	return cells
}

// PrintSpread writes a table of many records: first, median and last of each row.
func PrintSpread(w io.Writer, rows []Row, runs []*Timeline) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "seconds\tfirst\tmedian\tlast\t")
	for _, row := range rows {
		var times []time.Duration
		for _, run := range runs {
			if at, ok := row.At(run); ok {
				times = append(times, at)
			}
		}
		if len(times) == 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", row.Title, seconds(slices.Min(times)), seconds(Median(times)), seconds(slices.Max(times)))
	}
	return table.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// Quantile is the value that a part of them has at most, by the nearest rank; zero of none.
func Quantile(values []time.Duration, part float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the middle value, the mean of both middle ones when their number is even; zero of none.
func Median(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
