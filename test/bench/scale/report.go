package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// line is what tenants cost, for people.
func line(c manager.Cost) string {
	return fmt.Sprintf("  %d tenants in %.1f s; a tenant: %.3f CPU-s, %.1f reconciles, %.1f requests, %.1f writes, %.1f lists, %.1f requests and %.1f writes to its API, %.1f connections to its etcds and %.1f to its API; %.0f errors of reconciles; %.0f MiB resident, %.0f at most, %.0f live on the heap",
		c.Number, c.Took.Seconds(), c.Each(c.CPU), c.Each(c.Reconciles), c.Each(c.Requests), c.Each(c.Writes), c.Each(c.Lists), c.Each(c.Tenants), c.Each(c.TenantWrites), c.Each(c.ToEtcds), c.Each(c.ToAPIs), c.Errors, c.Resident, c.Peak, c.Heap)
}

// results are all that was measured.
type results struct {
	tenants        int
	empty, settled manager.Usage
	// first and rest are the two waves, all is both.
	first, rest, all, atRest, restart manager.Cost
	edits                             []time.Duration
	editRestarting                    time.Duration
}

func (r *results) mebibytes() float64 {
	return (r.settled.Peak - r.empty.Resident) / float64(r.tenants)
}

// ratio is what one of the later tenants cost, as a multiple of what one of the first did.
func (r *results) ratio() float64 {
	if r.rest.Number == 0 {
		return 1
	}
	return r.rest.Each(r.rest.CPU) / r.first.Each(r.first.CPU)
}

func (r *results) targets() []manager.Target {
	edit := slices.Max(append([]time.Duration{r.editRestarting}, r.edits...))
	name := func(text string) string { return fmt.Sprintf(text, r.tenants) }
	return []manager.Target{
		manager.NewTarget(name("manager_%d_seconds"), r.all.Took.Seconds(), 1, "s until all are Available", 360, 1000),
		manager.NewTarget("manager_mib_per_tenant", r.mebibytes(), 2, "MiB a tenant, at the peak", 1, 1000),
		manager.NewTarget(name("manager_cost_ratio_%d"), r.ratio(), 2, "times the processor time of one of the first tenants", 1.2, 5000),
		manager.NewTarget("manager_restart_idle_seconds", r.restart.Took.Seconds(), 1, "s until a new process is idle", 45, 1000),
		manager.NewTarget("manager_restart_writes", r.restart.Written(), 0, "writes of a new process", 0, 1000),
		manager.NewTarget("manager_edit_seconds", edit.Seconds(), 2, "s until an edit is applied, the slowest at rest and during a restart", 2, 1000),
		manager.NewTarget("manager_idle_cores", r.atRest.CPU/r.atRest.Took.Seconds(), 3, "cores at rest", 0.05, 1000),
	}
}

// beside are figures without a target.
func (r *results) beside() []figures.Figure {
	text := func(number float64) string { return fmt.Sprintf("%.2f", number) }
	return []figures.Figure{
		figures.New("manager_tenants", r.tenants, "tenants"),
		figures.New("manager_cpu_seconds_per_tenant", text(r.all.Each(r.all.CPU)), "CPU-s to make one"),
		figures.New("manager_requests_per_tenant", text(r.all.Each(r.all.Requests)), "requests to make one"),
		figures.New("manager_writes_per_tenant", text(r.all.Each(r.all.Writes)), "writes to make one"),
		figures.New("manager_lists_per_tenant", text(r.all.Each(r.all.Lists)), "lists by the API server to make one"),
		figures.New("manager_idle_lists_per_tenant", text(r.atRest.Each(r.atRest.Lists)/r.atRest.Took.Minutes()), "lists by the API server a minute at rest"),
		figures.New("manager_reconciles_per_tenant", text(r.all.Each(r.all.Reconciles)), "reconciles to make one"),
		figures.New("manager_idle_connections_per_tenant", text(r.atRest.Each(r.atRest.ToEtcds+r.atRest.ToAPIs)/r.atRest.Took.Minutes()), "connections a minute at rest"),
		figures.New("manager_idle_writes", fmt.Sprintf("%.0f", r.atRest.Written()), "writes at rest"),
		figures.New("manager_restart_cpu_seconds_per_tenant", text(r.restart.Each(r.restart.CPU)), "CPU-s of a new process until it is idle"),
	}
}

// report prints all figures and says which targets are missed, and keeps the figures.
func (r *results) report() error {
	return manager.Report("bench-scale", r.tenants, r.targets(), r.beside())
}
