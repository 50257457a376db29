package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
)

func TestFiguresAreRatiosToHAProxyOverAllNumbersOfConnections(t *testing.T) {
	kok := &way{name: balancers.KOKName, balancer: &balancers.Balancer{}}
	haproxy := &way{name: balancers.HAProxyName, balancer: &balancers.Balancer{}}
	direct := &way{name: "direct"}
	ways := []*way{direct, kok, haproxy}
	r := &report{}
	r.add("p50, 1 connections", "ms", rowP50, ways, map[*way]float64{direct: 1, kok: 4, haproxy: 2})
	r.add("p50, 8 connections", "ms", rowP50, ways, map[*way]float64{direct: 1, kok: 1, haproxy: 2})
	r.add("p99, 8 connections", "ms", rowOther, ways, map[*way]float64{direct: 1, kok: 9, haproxy: 1})
	r.add("requests, 1 connections", "/s", rowRate, ways, map[*way]float64{direct: 1, kok: 3, haproxy: 2})
	r.add("CPU for 10,000 requests, 1 connections", "s", rowCPU, ways, map[*way]float64{direct: 0, kok: 3, haproxy: 4})
	r.add("memory", "KiB", rowOther, ways, map[*way]float64{kok: 4.5, haproxy: 3}).figure = "lb_kib_per_connection"
	out := &strings.Builder{}
	if err := r.print(out, ways); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"figure lb_p50_ratio_haproxy 1.00 ratio\n", "figure lb_rps_ratio_haproxy 1.50 ratio\n",
		"figure lb_cpu_ratio_haproxy 0.75 ratio\n", "figure lb_kib_per_connection 4.50 KiB\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "CPU") && strings.Fields(line)[6] != "-" {
			t.Errorf("the direct way has processor time: %s", line)
		}
	}
}

func TestNoFigureIsMadeOfWhatWasNotMeasured(t *testing.T) {
	if figures := (&report{}).figures(); len(figures) != 0 {
		t.Errorf("got %v", figures)
	}
}

func TestTheMedianIsOverTurns(t *testing.T) {
	w := &way{}
	r := results{}
	for _, took := range []time.Duration{4 * time.Second, time.Second, 2 * time.Second} {
		r.add(w, &result{latencies: []time.Duration{1, 2, 3, 4}, took: took, cpu: time.Second})
	}
	r.add(w, nil)
	if got := r.median((*result).rate)[w]; got != 2 {
		t.Errorf("median of 1, 2 and 4 requests a second is %v", got)
	}
	if got := r.median(func(r *result) float64 { return r.cpuFor(10_000) })[w]; got != 2500 {
		t.Errorf("processor time for 10,000 requests is %v s, want 2500", got)
	}
	if got := r[w][0].quantile(0.5); got != 3 {
		t.Errorf("the middle of 1 to 4 is %v", got)
	}
}
