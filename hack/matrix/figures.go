package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// summed are the ends of names of figures whose sum means something: what went wrong, in whichever scenario, and what was
// tested one by one.
var summed = []string{"_failed_requests", "_lost_writes", "_restarts", "_raw_429", "_raw_5xx", "_raw_broken", "_tested", "faults_total", "faults_passed"}

func canBeAdded(name string) bool {
	return slices.ContainsFunc(summed, func(end string) bool { return strings.HasSuffix(name, end) })
}

// withSums puts figures of one name beside each other, in the order of their first, and after several that can be added their
// sum.
func withSums(all []figures.Figure) ([]figures.Figure, error) {
	var order []string
	byName := map[string][]figures.Figure{}
	for _, f := range all {
		if len(byName[f.Name]) == 0 {
			order = append(order, f.Name)
		}
		byName[f.Name] = append(byName[f.Name], f)
	}
	var out []figures.Figure
	for _, name := range order {
		same := byName[name]
		out = append(out, same...)
		if len(same) < 2 || !canBeAdded(name) {
			continue
		}
		var total float64
		for _, f := range same {
			value, err := f.Value.Float64()
			if err != nil {
				return nil, fmt.Errorf("add up %s: %w", name, err)
			}
			total += value
		}
		out = append(out, figures.Figure{
			Name: name, Value: json.Number(strconv.FormatFloat(total, 'f', -1, 64)), Unit: same[0].Unit,
			Scenario: fmt.Sprintf("sum of %d scenarios", len(same)),
		})
	}
	return out, nil
}

// writeFigures writes a line for each, which begins as those that steps print.
func writeFigures(w io.Writer, all []figures.Figure) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		fmt.Fprintf(table, "figure %s\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, f.Scenario)
	}
	return table.Flush()
}

// showFigures writes what the last runs of steps measured.
func showFigures(steps []string) error {
	var all []figures.Figure
	for _, name := range steps {
		found, err := figures.Read(name)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("make %s has measured nothing here yet: run it first", name)
		}
		all = append(all, found...)
	}
	return writeFigures(os.Stdout, all)
}
