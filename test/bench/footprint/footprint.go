package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

const mebibyte = 1 << 20

// usage is what the processes of a component use.
type usage struct {
	processes.Usage
	// proportional is memory in bytes, where a page that several processes have counts for each by its share.
	proportional uint64
}

// taken is what a component takes of its host nodes.
type taken struct {
	// resident and proportional are MiB of memory. The first counts a page for each process that has it.
	resident, proportional float64
	// cores is processor time by time, written KiB a second that go to disks.
	cores, written float64
}

func (t taken) plus(other taken) taken {
	return taken{t.resident + other.resident, t.proportional + other.proportional, t.cores + other.cores, t.written + other.written}
}

// footprint is what a control plane takes, by component.
type footprint map[string]taken

// of is the footprint at the end of some time.
func of(before, after map[string]usage, took time.Duration) footprint {
	f := footprint{}
	for component, now := range after {
		then := before[component]
		f[component] = taken{
			resident: float64(now.Resident) / mebibyte, proportional: float64(now.proportional) / mebibyte,
			cores:   (now.CPU - then.CPU).Seconds() / took.Seconds(),
			written: float64(now.Written-then.Written) / 1024 / took.Seconds(),
		}
	}
	return f
}

func (f footprint) sum() taken {
	all := taken{}
	for _, t := range f {
		all = all.plus(t)
	}
	return all
}

// table has a row for each component, and their sum.
func (f footprint) table() string {
	var text strings.Builder
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rows, "component\tRSS MiB\tPSS MiB\tcores\tKiB/s written\t")
	row := func(name string, t taken) {
		fmt.Fprintf(rows, "%s\t%.0f\t%.0f\t%.3f\t%.1f\t\n", name, t.resident, t.proportional, t.cores, t.written)
	}
	for _, component := range slices.Sorted(maps.Keys(f)) {
		row(component, f[component])
	}
	row("all", f.sum())
	_ = rows.Flush() // A strings.Builder takes everything.
	return text.String()
}

func (f footprint) figures(prefix string) []figures.Figure {
	all := f.sum()
	return []figures.Figure{
		figures.New(prefix+"mib", fmt.Sprintf("%.0f", all.resident), "MiB of resident memory"),
		figures.New(prefix+"pss_mib", fmt.Sprintf("%.0f", all.proportional), "MiB of memory, shared pages by their share"),
		figures.New(prefix+"idle_cores", fmt.Sprintf("%.3f", all.cores), "cores"),
		figures.New(prefix+"written_kib_per_second", fmt.Sprintf("%.1f", all.written), "KiB/s"),
	}
}
