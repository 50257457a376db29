package main

// worse is how many times as bad a ratio may be as the stored one.
const worse = 1.3

// storedRatio is what a benchmark measured on 2 cores when nobody complained.
type storedRatio struct {
	name  string
	value float64
	// higherIsBetter is true for a rate; all others are costs.
	higherIsBetter bool
}

// storedRatios are those of make bench-quick. Who makes something faster, or decides that something may be slower, stores what it measures
// then.
var storedRatios = []storedRatio{
	{name: "create_single_ratio", value: 3.53},
	{name: "lb_p50_ratio_haproxy", value: 0.94},
	{name: "lb_rps_ratio_haproxy", value: 1.05, higherIsBetter: true},
	{name: "lb_cpu_ratio_haproxy", value: 1.35},
}

// ratioFigures wants no ratio to be much worse than the stored one.
func ratioFigures() (all []wanted) {
	for _, r := range storedRatios {
		if r.higherIsBetter {
			all = append(all, atLeast(r.value/worse, r.name)...)
		} else {
			all = append(all, atMost(r.value*worse, r.name)...)
		}
	}
	return all
}
