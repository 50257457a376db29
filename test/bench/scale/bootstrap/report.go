package main

import (
	"fmt"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// renewals is how the manager's writes call a token that is renewed: it was made and not used for half of its life. A reconcile that makes
// what is there already renews it, too.
const renewals = "update Secret in tenants"

// line is what Clusters or Machines cost, for people.
func line(what string, c manager.Cost) string {
	return fmt.Sprintf("  %d %ss in %.1f s; a %s: %.4f CPU-s, %.1f reconciles, %.1f requests, %.1f writes, %.1f requests and %.1f writes to tenants; %.0f errors of reconciles; %.0f MiB resident, %.0f at most, %.0f live on the heap; %.0f goroutines, %.0f open files and connections",
		c.Number, what, c.Took.Seconds(), what, c.Each(c.CPU), c.Each(c.Reconciles), c.Each(c.Requests), c.Each(c.Writes), c.Each(c.Tenants), c.Each(c.TenantWrites), c.Errors, c.Resident, c.Peak, c.Heap, c.Goroutines, c.Descriptors)
}

// results are all that was measured.
type results struct {
	clusters, machines int
	// empty is before the first Cluster, settled is with all Machines.
	empty, settled manager.Usage
	// emptyHeap is in MiB.
	emptyHeap float64
	// connected is with all Clusters. first and rest are the two waves of Machines, all is both.
	connected, first, rest, all, atRest, restart manager.Cost
	// joining is how long Machines took to join, once they had their data Secrets.
	joining time.Duration
	// open are the connections to tenants at rest.
	open float64
}

// ratio is what one of the later Machines cost, as a multiple of what one of the first did.
func (r *results) ratio() float64 {
	if r.rest.Number == 0 {
		return 1
	}
	return r.rest.Each(r.rest.CPU) / r.first.Each(r.first.CPU)
}

func (r *results) targets() []manager.Target {
	return []manager.Target{
		manager.NewTarget("bootstrap_restart_writes", r.restart.Written(), 0, "writes of a new process", 0, r.clusters),
		manager.NewTarget("bootstrap_idle_writes", r.atRest.Written(), 0, "writes at rest", 0, r.clusters),
	}
}

// beside are figures without a target.
func (r *results) beside() []figures.Figure {
	one := func(name string, value float64, digits int, unit string) figures.Figure {
		return figures.New(name, fmt.Sprintf("%.*f", digits, value), unit)
	}
	machine := func(name string, value float64, unit string) figures.Figure {
		return one("bootstrap_"+name+"_per_machine", r.all.Each(value), 2, unit)
	}
	minutes := r.atRest.Took.Minutes()
	return []figures.Figure{
		one("bootstrap_clusters", float64(r.clusters), 0, "Clusters"),
		one("bootstrap_machines", float64(r.machines), 0, "Machines"),
		one("bootstrap_connect_seconds", r.connected.Took.Seconds(), 1, "s until all tenants are watched"),
		one("bootstrap_connect_cpu_seconds_per_cluster", r.connected.Each(r.connected.CPU), 3, "CPU-s to connect to one"),
		one(fmt.Sprintf("bootstrap_%d_seconds", r.machines), r.all.Took.Seconds(), 1, "s until all have their data Secret"),
		one("bootstrap_join_seconds", r.joining.Seconds(), 1, "s more until all have joined"),
		one("bootstrap_cpu_seconds_per_machine", r.all.Each(r.all.CPU), 4, "CPU-s from a Machine to its Node"),
		machine("requests", r.all.Requests, "requests for one"),
		machine("writes", r.all.Writes, "writes for one"),
		machine("tenant_requests", r.all.Tenants, "requests to the tenant for one"),
		machine("tenant_writes", r.all.TenantWrites, "writes to the tenant for one"),
		machine("reconciles", r.all.Reconciles, "reconciles for one"),
		one("bootstrap_token_renewals", r.first.Wrote[renewals]+r.rest.Wrote[renewals], 0, "tokens that were renewed until their Machines joined"),
		one(fmt.Sprintf("bootstrap_cost_ratio_%d", r.machines), r.ratio(), 2, "times the processor time of one of the first Machines"),
		one("bootstrap_mib_per_cluster", (r.connected.Peak-r.empty.Resident)/float64(r.clusters), 2, "MiB a Cluster, at the peak without Machines"),
		one("bootstrap_mib_per_machine", (r.settled.Peak-r.connected.Peak)/float64(r.machines), 3, "MiB more a Machine, at the peak"),
		one("bootstrap_live_mib_per_cluster", r.connected.Each(r.connected.Heap-r.emptyHeap), 3, "MiB that a Cluster keeps on the heap"),
		one("bootstrap_live_kib_per_machine", (r.atRest.Heap-r.connected.Heap)*1024/float64(r.machines), 1, "KiB more that a Machine keeps"),
		one("bootstrap_goroutines_per_cluster", r.atRest.Each(r.atRest.Goroutines), 1, "goroutines at rest"),
		one("bootstrap_connections_per_cluster", r.atRest.Each(r.open), 2, "connections to the tenant at rest"),
		one("bootstrap_idle_cores", r.atRest.CPU/r.atRest.Took.Seconds(), 3, "cores at rest"),
		one("bootstrap_idle_requests_per_cluster", r.atRest.Each(r.atRest.Tenants)/minutes, 2, "requests a minute to the tenant at rest"),
		one("bootstrap_restart_idle_seconds", r.restart.Took.Seconds(), 1, "s until a new process is idle"),
		one("bootstrap_restart_cpu_seconds_per_machine", r.restart.Each(r.restart.CPU), 4, "CPU-s of a new process until it is idle"),
		one("bootstrap_restart_requests_per_machine", r.restart.Each(r.restart.Requests), 2, "requests of a new process"),
	}
}

// report prints all figures, says which targets are missed, and keeps the figures.
func (r *results) report() error {
	return manager.Report("bench-scale-bootstrap", r.clusters, r.targets(), r.beside())
}
