package manager

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// State is what the manager has used and counted since it started.
type State struct {
	Usage
	Counts
}

// Since is what came after; memory is that of now.
func (s State) Since(before State) Cost {
	used := s.Usage
	used.CPU -= before.CPU
	return Cost{State: State{used, s.Counts.Since(before.Counts)}}
}

// Cost is what the manager took for a number of objects, within a time.
type Cost struct {
	State

	Number int
	Took   time.Duration
}

// And adds what two took, one after the other.
func (c Cost) And(later Cost) Cost {
	total := later
	total.Number, total.Took = c.Number+later.Number, c.Took+later.Took
	total.Wrote, total.By = nil, nil // Each was printed.
	for number, was := range map[*float64]float64{
		&total.CPU: c.CPU, &total.Reconciles: c.Reconciles, &total.Errors: c.Errors, &total.Requests: c.Requests, &total.Tenants: c.Tenants,
		&total.ToEtcds: c.ToEtcds, &total.ToAPIs: c.ToAPIs, &total.Writes: c.Writes, &total.TenantWrites: c.TenantWrites,
		&total.Lists: c.Lists,
	} {
		*number += was
	}
	return total
}

// Each is a number for each object.
func (c Cost) Each(number float64) float64 { return number / float64(c.Number) }

// WritesByKind are the writes for people, the most frequent first.
func (c Cost) WritesByKind() string { return "writes: " + list(c.Wrote) }

// ByController are the reconciles for people, by controller, the most frequent first.
func (c Cost) ByController() string { return "reconciles: " + list(c.By) }

func list(counted map[string]float64) string {
	kinds := slices.SortedFunc(maps.Keys(counted), func(a, b string) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b))
	})
	said := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		said = append(said, fmt.Sprintf("%.0f %s", counted[kind], kind))
	}
	return cmp.Or(strings.Join(said, ", "), "none")
}

// Target is what a figure may be at most.
type Target struct {
	Figure figures.Figure
	Value  float64
	Most   float64
	// At is the number of tenants that the target is for; with another the figure is shown beside it and no more is said.
	At int
}

// NewTarget makes a target of a figure that is shown with so many digits.
func NewTarget(name string, value float64, digits int, unit string, most float64, at int) Target {
	return Target{figures.New(name, fmt.Sprintf("%.*f", digits, value), unit), value, most, at}
}

// Verdict says how a figure is beside its target, with that number of tenants. A target is for 2 cores that do nothing else.
func (t Target) Verdict(tenants int) string {
	is := "as wanted"
	if t.Value > t.Most {
		is = "MISSED"
	}
	text := fmt.Sprintf("%-30s %8s  at most %g: %s", t.Figure.Name, t.Figure.Value, t.Most, is)
	if tenants != t.At {
		text += fmt.Sprintf(" (the target is for %d tenants, and there are %d)", t.At, tenants)
	}
	return strings.TrimSpace(text)
}

// Report prints all figures, says which targets are missed, and keeps the figures as those of a step.
func Report(step string, tenants int, targets []Target, beside []figures.Figure) error {
	all := slices.Clone(beside)
	fmt.Println()
	for _, t := range targets {
		all = append(all, t.Figure)
		fmt.Println("  " + t.Verdict(tenants))
	}
	fmt.Println()
	for _, figure := range all {
		fmt.Println(figure)
	}
	return figures.Write(step, all)
}
