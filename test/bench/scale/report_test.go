package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
)

// measured are results that reach every target.
func measured(tenants int) *results {
	wave := func(tenants int, cpu float64) manager.Cost {
		return manager.Cost{Number: tenants, Took: 50 * time.Second, State: manager.State{Usage: manager.Usage{CPU: cpu, Peak: 500}}}
	}
	r := &results{
		tenants: tenants, empty: manager.Usage{Resident: 80}, settled: manager.Usage{Peak: 80 + 0.9*float64(tenants)},
		first: wave(100, 20), rest: wave(tenants-100, 0.22*float64(tenants-100)),
		atRest: manager.Cost{Number: tenants, Took: 100 * time.Second, State: manager.State{Usage: manager.Usage{CPU: 4}}}, restart: wave(tenants, 30),
		edits: []time.Duration{time.Second, 1500 * time.Millisecond}, editRestarting: time.Second,
	}
	r.all, r.restart.Took = r.first.And(r.rest), 40*time.Second
	return r
}

func TestATargetIsMissedByWhatIsAbove(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*results)
		want   string
	}{
		"none":                   {func(*results) {}, ""},
		"time":                   {func(r *results) { r.all.Took = 361 * time.Second }, "manager_1000_seconds"},
		"memory":                 {func(r *results) { r.settled.Peak = 1200 }, "manager_mib_per_tenant"},
		"a restart":              {func(r *results) { r.restart.Took = time.Minute }, "manager_restart_idle_seconds"},
		"a write":                {func(r *results) { r.restart.Writes = 1 }, "manager_restart_writes"},
		"a write to a tenant":    {func(r *results) { r.restart.TenantWrites = 1 }, "manager_restart_writes"},
		"an edit":                {func(r *results) { r.edits[1] = 3 * time.Second }, "manager_edit_seconds"},
		"an edit in the restart": {func(r *results) { r.editRestarting = 3 * time.Second }, "manager_edit_seconds"},
		"rest":                   {func(r *results) { r.atRest.CPU = 10 }, "manager_idle_cores"},
		"later tenants cost":     {func(r *results) { r.rest.CPU *= 2 }, "manager_cost_ratio_1000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := measured(1000)
			test.change(r)
			var missed []string
			for _, target := range r.targets() {
				if strings.Contains(target.Verdict(r.tenants), "MISSED") {
					missed = append(missed, target.Figure.Name)
				}
			}
			if got := strings.Join(missed, " "); got != test.want {
				t.Errorf("missed are %q, want %q", got, test.want)
			}
		})
	}
}

func TestAFigureOfAnotherNumberOfTenantsSaysSo(t *testing.T) {
	few, many := measured(200), measured(1000)
	for _, r := range []*results{few, many} {
		target := r.targets()[1]
		if said := strings.Contains(target.Verdict(r.tenants), "the target is for 1000 tenants"); said != (r == few) {
			t.Errorf("%d tenants: %s", r.tenants, target.Verdict(r.tenants))
		}
	}
}
