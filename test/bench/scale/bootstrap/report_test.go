package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
)

func measured() *results {
	cost := func(number int, cpu float64) manager.Cost {
		return manager.Cost{Number: number, Took: time.Minute, State: manager.State{Usage: manager.Usage{CPU: cpu, Peak: 300}, Counts: manager.Counts{Heap: 60}}}
	}
	r := &results{
		clusters: 100, machines: 1000, empty: manager.Usage{Resident: 70}, settled: manager.Usage{Peak: 400}, emptyHeap: 10,
		connected: cost(100, 1), first: cost(200, 4), rest: cost(800, 24), atRest: cost(100, 1), restart: cost(1000, 2),
	}
	r.all = r.first.And(r.rest)
	r.connected.Peak, r.connected.Heap = 120, 30
	return r
}

func TestAWriteOfASettledManagerIsAMiss(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*results)
		want   string
	}{
		"none":            {func(*results) {}, ""},
		"after a restart": {func(r *results) { r.restart.Writes = 1 }, "bootstrap_restart_writes"},
		"at rest":         {func(r *results) { r.atRest.TenantWrites = 1 }, "bootstrap_idle_writes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := measured()
			test.change(r)
			var missed []string
			for _, target := range r.targets() {
				if strings.Contains(target.Verdict(r.clusters), "MISSED") {
					missed = append(missed, target.Figure.Name)
				}
			}
			if got := strings.Join(missed, " "); got != test.want {
				t.Errorf("missed are %q, want %q", got, test.want)
			}
		})
	}
}

func TestMemoryIsThatOfClustersAndThatOfMachines(t *testing.T) {
	values := map[string]string{}
	for _, figure := range measured().beside() {
		values[figure.Name] = figure.Value.String()
	}
	for name, want := range map[string]string{
		"bootstrap_mib_per_cluster": "0.50", "bootstrap_mib_per_machine": "0.280", "bootstrap_live_mib_per_cluster": "0.200", "bootstrap_live_kib_per_machine": "30.7",
		"bootstrap_cost_ratio_1000": "1.50", "bootstrap_cpu_seconds_per_machine": "0.0280",
	} {
		if values[name] != want {
			t.Errorf("%s is %s, want %s", name, values[name], want)
		}
	}
}
