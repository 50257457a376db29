package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// state is what the manager has used and counted since it started.
type state struct {
	usage
	counts
}

// since is what came after; memory is that of now.
func (s state) since(before state) cost {
	used := s.usage
	used.cpu -= before.cpu
	return cost{state: state{used, s.counts.since(before.counts)}}
}

// cost is what the manager took for some tenants, within a time.
type cost struct {
	state
	tenants int
	took    time.Duration
}

// and adds what two took, one after the other.
func (c cost) and(later cost) cost {
	sum := later
	sum.tenants, sum.took = c.tenants+later.tenants, c.took+later.took
	sum.cpu += c.cpu
	sum.reconciles, sum.errors = c.reconciles+later.reconciles, c.errors+later.errors
	sum.requests, sum.counts.tenants = c.requests+later.requests, c.counts.tenants+later.counts.tenants
	sum.wrote = nil // Each was printed.
	sum.toEtcds, sum.toAPIs = c.toEtcds+later.toEtcds, c.toAPIs+later.toAPIs
	sum.writes, sum.tenantWrites = c.writes+later.writes, c.tenantWrites+later.tenantWrites
	return sum
}

// each is a number a tenant.
func (c cost) each(number float64) float64 { return number / float64(c.tenants) }

// writesByKind are the writes for people, the most frequent first.
func (c cost) writesByKind() string {
	kinds := slices.SortedFunc(maps.Keys(c.wrote), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.wrote[b], c.wrote[a]), cmp.Compare(a, b))
	})
	said := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		said = append(said, fmt.Sprintf("%.0f %s", c.wrote[kind], kind))
	}
	return "writes: " + cmp.Or(strings.Join(said, ", "), "none")
}

// String is one line for people.
func (c cost) String() string {
	return fmt.Sprintf("  %d tenants in %.1f s; a tenant: %.3f CPU-s, %.1f reconciles, %.1f requests, %.1f writes, %.1f requests and %.1f writes to its API, %.1f connections to its etcds and %.1f to its API; %.0f errors of reconciles; %.0f MiB resident, %.0f at most, %.0f live on the heap",
		c.tenants, c.took.Seconds(), c.each(c.cpu), c.each(c.reconciles), c.each(c.requests), c.each(c.writes), c.each(c.counts.tenants), c.each(c.tenantWrites), c.each(c.toEtcds), c.each(c.toAPIs), c.errors, c.resident, c.peak, c.heap)
}

// results are all that was measured.
type results struct {
	tenants        int
	empty, settled usage
	// first and rest are the two waves, all is both.
	first, rest, all, atRest, restart cost
	edits                             []time.Duration
	editRestarting                    time.Duration
}

// target is what a figure may be at most; each is of one of the figures.
type target struct {
	figure figures.Figure
	value  float64
	most   float64
	// at is the number of tenants that the target is for; with another the figure is shown beside it and no more is said.
	at int
}

func (r *results) mebibytes() float64 {
	return (r.settled.peak - r.empty.resident) / float64(r.tenants)
}

// ratio is what one of the later tenants cost, as a multiple of what one of the first did.
func (r *results) ratio() float64 {
	if r.rest.tenants == 0 {
		return 1
	}
	return r.rest.each(r.rest.cpu) / r.first.each(r.first.cpu)
}

func (r *results) targets() []target {
	edit := slices.Max(append([]time.Duration{r.editRestarting}, r.edits...))
	name := func(text string) string { return fmt.Sprintf(text, r.tenants) }
	one := func(name string, value float64, digits int, unit string, most float64, at int) target {
		return target{figures.New(name, fmt.Sprintf("%.*f", digits, value), unit), value, most, at}
	}
	return []target{
		one(name("manager_%d_seconds"), r.all.took.Seconds(), 1, "s until all are Available", 360, 1000),
		one("manager_mib_per_tenant", r.mebibytes(), 2, "MiB a tenant, at the peak", 1, 1000),
		one(name("manager_cost_ratio_%d"), r.ratio(), 2, "times the processor time of one of the first tenants", 1.2, 5000),
		one("manager_restart_idle_seconds", r.restart.took.Seconds(), 1, "s until a new process is idle", 45, 1000),
		one("manager_restart_writes", r.restart.writes+r.restart.tenantWrites, 0, "writes of a new process", 0, 1000),
		one("manager_edit_seconds", edit.Seconds(), 2, "s until an edit is applied, the slowest at rest and during a restart", 2, 1000),
		one("manager_idle_cores", r.atRest.cpu/r.atRest.took.Seconds(), 3, "cores at rest", 0.05, 1000),
	}
}

// beside are figures without a target.
func (r *results) beside() []figures.Figure {
	text := func(number float64) string { return fmt.Sprintf("%.2f", number) }
	return []figures.Figure{
		figures.New("manager_tenants", r.tenants, "tenants"),
		figures.New("manager_cpu_seconds_per_tenant", text(r.all.each(r.all.cpu)), "CPU-s to make one"),
		figures.New("manager_requests_per_tenant", text(r.all.each(r.all.requests)), "requests to make one"),
		figures.New("manager_writes_per_tenant", text(r.all.each(r.all.writes)), "writes to make one"),
		figures.New("manager_reconciles_per_tenant", text(r.all.each(r.all.reconciles)), "reconciles to make one"),
		figures.New("manager_idle_connections_per_tenant", text(r.atRest.each(r.atRest.toEtcds+r.atRest.toAPIs)/r.atRest.took.Minutes()), "connections a minute at rest"),
		figures.New("manager_idle_writes", fmt.Sprintf("%.0f", r.atRest.writes+r.atRest.tenantWrites), "writes at rest"),
		figures.New("manager_restart_cpu_seconds_per_tenant", text(r.restart.each(r.restart.cpu)), "CPU-s of a new process until it is idle"),
	}
}

// report prints all figures and says which targets are missed, and keeps the figures.
func (r *results) report() error {
	all := r.beside()
	fmt.Println()
	for _, t := range r.targets() {
		all = append(all, t.figure)
		fmt.Println("  " + r.verdict(t))
	}
	fmt.Println()
	for _, figure := range all {
		fmt.Println(figure)
	}
	return figures.Write("bench-scale", all)
}

// verdict says how a figure is beside its target. A target is for so many tenants, on 2 cores that do nothing else.
func (r *results) verdict(t target) string {
	is := "as wanted"
	if t.value > t.most {
		is = "MISSED"
	}
	text := fmt.Sprintf("%-30s %8s  at most %g: %s", t.figure.Name, t.figure.Value, t.most, is)
	if r.tenants != t.at {
		text += fmt.Sprintf(" (the target is for %d tenants, and there are %d)", t.at, r.tenants)
	}
	return strings.TrimSpace(text)
}
