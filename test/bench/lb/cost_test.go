package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hundred is what 100 workers cost two kube-apiservers.
func hundred() *cost {
	return &cost{
		workers: 100, servers: 2,
		without: window{took: 30 * time.Second, cpu: 2 * time.Second, resident: 500 * mebibyte, network: network{open: 8, accepted: 30}},
		with: window{
			took: 2 * time.Minute, cpu: 20 * time.Second, resident: 520 * mebibyte, network: network{open: 308, accepted: 360},
			totals: totals{probes: 4800, probing: 1_200_000, discovery: 40_000},
		},
		change: change{discovery: 52_000, took: 6 * time.Second, known: []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 3 * time.Second}},
	}
}

func TestFiguresAreWhatWorkersAddForOneKubeAPIServerAndCostOneWorker(t *testing.T) {
	r := &report{cost: hundred()}
	out := &strings.Builder{}
	if err := r.print(out, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		// 10 s in 2 minutes against 1 s in half a minute.
		"figure lb_100_workers_apiserver_millicores 50.0 millicores\n",
		"figure lb_100_workers_apiserver_mib 10.0 MiB\n",
		"figure lb_worker_probe_bytes_per_minute 6000 B\n",
		"figure lb_worker_discovery_bytes_per_minute 200 B\n",
		// 520 B, of which 20 B are those of a tenth of a minute.
		"figure lb_worker_discovery_bytes_per_change 500 B\n",
		"figure lb_change_known_seconds 3.000 s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "haproxy") {
		t.Errorf("a comparison that was not made is printed:\n%s", out)
	}
}

func TestTheTableSaysWhatFiguresComeFrom(t *testing.T) {
	c := hundred()
	for name, test := range map[string]struct{ got, want float64 }{
		"processor time without workers, s/min": {c.cpuPerMinute(c.without), 2},
		"processor time with workers, s/min":    {c.cpuPerMinute(c.with), 5},
		"connections of a worker":               {c.connections(), 1.5},
		"new connections a second":              {c.acceptRate(), 1},
		"probes a second":                       {c.probeRate(), 20},
		"probes a second while all is well":     {c.calmRate(), 20},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %v, want %v", name, test.got, test.want)
		}
	}
}

func TestLateAnswersAreSeenByTheNumberOfProbes(t *testing.T) {
	c := hundred()
	if c.disturbed() {
		t.Error("20 probes a second of 100 workers are said to be too many")
	}
	c.with.probes *= 2
	if !c.disturbed() {
		t.Error("40 probes a second of 100 workers are said to be usual")
	}
}

func TestAWindowIsTheDifferenceOfTwoReadings(t *testing.T) {
	before := reading{at: noon, cpu: 5 * time.Second, network: network{open: 3, accepted: 100}, totals: totals{probes: 10, probing: 1000, discovery: 50}}
	after := reading{at: noon.Add(time.Minute), cpu: 7 * time.Second, network: network{open: 9, accepted: 140}, totals: totals{probes: 30, probing: 5000, discovery: 80}}
	got := between(before, after, []int{30, 10, 500})
	want := window{
		took: time.Minute, cpu: 2 * time.Second, resident: 30,
		network: network{open: 9, accepted: 40}, totals: totals{probes: 20, probing: 4000, discovery: 30},
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAChangeSpreadsFromTheFirstWhoLearntIt(t *testing.T) {
	got := spread([]time.Time{noon.Add(3 * time.Second), noon, noon.Add(time.Second)})
	if want := []time.Duration{0, time.Second, 3 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
