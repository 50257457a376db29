package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// results are the turns of each way.
type results map[*way][]*result

// add notes a turn; one that failed is nil.
func (r results) add(w *way, turn *result) {
	if turn != nil {
		r[w] = append(r[w], turn)
	}
}

// median is the middle one of a value over a way's turns.
func (r results) median(of func(*result) float64) map[*way]float64 {
	medians := map[*way]float64{}
	for w, turns := range r {
		values := make([]float64, len(turns))
		for i, turn := range turns {
			values[i] = of(turn)
		}
		slices.Sort(values)
		medians[w] = (values[len(values)/2] + values[(len(values)-1)/2]) / 2
	}
	return medians
}

// kind says to which figure a row adds.
type kind int

const (
	rowOther kind = iota
	rowP50
	rowRate
	rowCPU
)

// row is one line of the table.
type row struct {
	title, unit string
	kind        kind
	// figure is the name of the figure that our value is by itself; empty for none.
	figure string
	// values are by the name of a way; one that has none is not there.
	values map[string]float64
}

// report is the table.
type report struct {
	rows []*row
	// cost is nil when it was not measured.
	cost *cost
}

func (r *report) add(title, unit string, k kind, ways []*way, values map[*way]float64) *row {
	line := &row{title: title, unit: unit, kind: k, values: map[string]float64{}}
	for _, w := range ways {
		// Nobody's processor time is that of a load balancer that is not there.
		if value, ok := values[w]; ok && (w.balancer != nil || value != 0) {
			line.values[w.name] = value
		}
	}
	r.rows = append(r.rows, line)
	return line
}

// ratio is our value over HAProxy's.
func (r *row) ratio() (float64, bool) {
	ours, theirs := r.values[balancers.KOKName], r.values[balancers.HAProxyName]
	return ours / theirs, ours > 0 && theirs > 0
}

func (r *report) print(out io.Writer, ways []*way) error {
	if len(r.rows) > 0 {
		if err := r.printWays(out, ways); err != nil {
			return err
		}
	}
	if r.cost != nil {
		if err := r.cost.print(out); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	for _, figure := range r.figures() {
		fmt.Fprintln(out, figure)
	}
	return nil
}

// printWays prints the comparison.
func (r *report) printWays(out io.Writer, ways []*way) error {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, line := range r.rows {
		width = max(width, len(line.title)+1+len(line.unit))
	}
	// Only the titles begin at the left.
	fmt.Fprintf(table, "%-*s\t", width, "")
	for _, w := range ways {
		fmt.Fprint(table, w.name, "\t")
	}
	fmt.Fprint(table, "ratio to haproxy\t\n")
	for _, line := range r.rows {
		fmt.Fprintf(table, "%-*s\t", width, line.title+" "+line.unit)
		for _, w := range ways {
			cell := "-"
			if value, ok := line.values[w.name]; ok {
				cell = strconv.FormatFloat(value, 'f', 2, 64)
			}
			fmt.Fprint(table, cell, "\t")
		}
		cell := "-"
		if ratio, ok := line.ratio(); ok {
			cell = strconv.FormatFloat(ratio, 'f', 2, 64)
		}
		fmt.Fprint(table, cell, "\t\n")
	}
	return table.Flush()
}

// figures are the ratios of each kind, over all numbers of connections the geometric mean, rows that are figures by themselves, and what workers cost.
func (r *report) figures() []figures.Figure {
	var all []figures.Figure
	for _, f := range []struct {
		name string
		kind kind
	}{{"lb_p50_ratio_haproxy", rowP50}, {"lb_rps_ratio_haproxy", rowRate}, {"lb_cpu_ratio_haproxy", rowCPU}} {
		sum, count := 0.0, 0
		for _, line := range r.rows {
			if ratio, ok := line.ratio(); ok && line.kind == f.kind {
				sum, count = sum+math.Log(ratio), count+1
			}
		}
		if count > 0 {
			all = append(all, figures.New(f.name, fmt.Sprintf("%.2f", math.Exp(sum/float64(count))), "ratio"))
		}
	}
	for _, line := range r.rows {
		if line.figure != "" {
			all = append(all, figures.New(line.figure, fmt.Sprintf("%.2f", line.values[balancers.KOKName]), line.unit))
		}
	}
	if r.cost != nil {
		all = append(all, r.cost.figures()...)
	}
	return all
}
