package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/health"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// calm is by how much load balancers may probe more often than while all is well before the machine is too busy to
// believe the result.
const calm = 1.2

// reading is what is known at one moment.
type reading struct {
	at time.Time
	// cpu of all kube-apiservers together since their start.
	cpu time.Duration
	network
	totals
}

// window is what happened between two readings.
type window struct {
	took time.Duration
	// cpu of all kube-apiservers together.
	cpu time.Duration
	// resident is the memory of all kube-apiservers together, in bytes: the middle of what was read once a second.
	resident int
	// open connections of kube-apiservers, at the end; accepted connections of all.
	network
	totals
}

func between(before, after reading, resident []int) window {
	slices.Sort(resident)
	w := window{
		took: after.at.Sub(before.at), cpu: after.cpu - before.cpu,
		network: network{after.open, after.accepted - before.accepted},
		totals:  totals{after.probes - before.probes, after.probing - before.probing, after.discovery - before.discovery},
	}
	if len(resident) > 0 {
		w.resident = resident[len(resident)/2]
	}
	return w
}

// change is what one change of the EndpointSlice default/kubernetes cost.
type change struct {
	// discovery is bytes to and from all load balancers while it spread, in the time took.
	discovery uint64
	took      time.Duration
	// known is after which times each load balancer knew it, counted from the first that did; sorted.
	known []time.Duration
}

// spread tells how a change spread from the moments at which load balancers learnt it.
func spread(learnt []time.Time) []time.Duration {
	first := slices.MinFunc(learnt, time.Time.Compare)
	known := make([]time.Duration, len(learnt))
	for i, at := range learnt {
		known[i] = at.Sub(first)
	}
	slices.Sort(known)
	return known
}

// cost is what the load balancers of many workers cost kube-apiservers.
type cost struct {
	workers, servers int
	without, with    window
	change           change
}

// perServer is a value of all kube-apiservers for one of them.
func (c *cost) perServer(value float64) float64 { return value / float64(c.servers) }

// perWorkerMinute is a count of the window with workers for one of them and a minute.
func (c *cost) perWorkerMinute(count uint64) float64 {
	return float64(count) / float64(c.workers) / c.with.took.Minutes()
}

// cpuPerMinute is the processor time of one kube-apiserver in a minute, in seconds.
func (c *cost) cpuPerMinute(w window) float64 {
	return c.perServer(w.cpu.Seconds() / w.took.Minutes())
}

// millicores are what the workers take of one kube-apiserver's processor.
func (c *cost) millicores() float64 {
	return 1000 * (c.cpuPerMinute(c.with) - c.cpuPerMinute(c.without)) / 60
}

// resident is the memory that the workers take of one kube-apiserver, in MiB.
func (c *cost) resident() float64 {
	return c.perServer(float64(c.with.resident-c.without.resident)) / mebibyte
}

// probeRate is the number of probes a second that one kube-apiserver gets.
func (c *cost) probeRate() float64 {
	return c.perServer(float64(c.with.probes) / c.with.took.Seconds())
}

// calmRate is probeRate while all is well.
func (c *cost) calmRate() float64 { return float64(c.workers) / health.DefaultTiming.Longest.Seconds() }

// disturbed is true when load balancers doubted kube-apiservers and asked more often.
func (c *cost) disturbed() bool { return c.probeRate() > calm*c.calmRate() }

// connections are those of a worker that one kube-apiserver has open.
func (c *cost) connections() float64 {
	return c.perServer(float64(c.with.open-c.without.open) / float64(c.workers))
}

// acceptRate is how many new connections a second of all workers one kube-apiserver accepts.
func (c *cost) acceptRate() float64 {
	return c.perServer(float64(c.with.accepted)/c.with.took.Seconds() - float64(c.without.accepted)/c.without.took.Seconds())
}

// changeBytes are those of a worker for the change, without what discovery costs in the same time anyway.
func (c *cost) changeBytes() float64 {
	return float64(c.change.discovery)/float64(c.workers) - c.perWorkerMinute(c.with.discovery)*c.change.took.Minutes()
}

func (c *cost) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%d workers, %d kube-apiservers, %s without and %s with the workers\n", c.workers, c.servers, c.without.took.Round(time.Second), c.with.took.Round(time.Second))
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, line := range []struct {
		title string
		value float64
		unit  string
	}{
		{"processor time of a kube-apiserver, without workers", c.cpuPerMinute(c.without), "s/min"},
		{"processor time of a kube-apiserver, with workers", c.cpuPerMinute(c.with), "s/min"},
		{"difference for a worker", c.millicores() / float64(c.workers), "millicores"},
		{"resident memory of a kube-apiserver, without workers", c.perServer(float64(c.without.resident)) / mebibyte, "MiB"},
		{"resident memory of a kube-apiserver, with workers", c.perServer(float64(c.with.resident)) / mebibyte, "MiB"},
		{"difference for a worker", c.resident() * 1024 / float64(c.workers), "KiB"},
		{"connections of a worker to a kube-apiserver", c.connections(), ""},
		{"probes at a kube-apiserver", c.probeRate(), "/s"},
		{"new connections to a kube-apiserver", c.acceptRate(), "/s"},
		{"a change is known to half of the workers after", quantile(c.change.known, 0.5).Seconds(), "s"},
	} {
		fmt.Fprintf(table, "%s\t%.3f\t%s\n", line.title, line.value, line.unit)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if c.disturbed() {
		fmt.Fprintf(out, "WARNING: load balancers probed more often than %.0f times a second, because answers came late: the machine is too busy\n", c.calmRate())
	}
	return nil
}

func (c *cost) figures() []figures.Figure {
	workers := fmt.Sprintf("lb_%d_workers_apiserver_", c.workers)
	return []figures.Figure{
		figures.New(workers+"millicores", fmt.Sprintf("%.1f", c.millicores()), "millicores"),
		figures.New(workers+"mib", fmt.Sprintf("%.1f", c.resident()), "MiB"),
		figures.New("lb_worker_probe_bytes_per_minute", fmt.Sprintf("%.0f", c.perWorkerMinute(c.with.probing)), "B"),
		figures.New("lb_worker_discovery_bytes_per_minute", fmt.Sprintf("%.0f", c.perWorkerMinute(c.with.discovery)), "B"),
		figures.New("lb_worker_discovery_bytes_per_change", fmt.Sprintf("%.0f", c.changeBytes()), "B"),
		figures.New("lb_change_known_seconds", fmt.Sprintf("%.3f", quantile(c.change.known, 1).Seconds()), "s"),
	}
}
