package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const someMetrics = `# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="kokcontrolplane",result="success"} 7
controller_runtime_reconcile_total{controller="kokcontrolplane",result="error"} 2
controller_runtime_reconcile_total{controller="another",result="error"} 100
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="GET"} 5
rest_client_requests_total{code="201",host="127.0.0.1:6443",method="PATCH"} 6
rest_client_requests_total{code="200",host="127.250.0.9:6443",method="GET"} 11
# TYPE kok_writes_total counter
kok_writes_total{cluster="management",kind="Secret",verb="create"} 3
kok_writes_total{cluster="host",kind="Service",verb="apply"} 4
kok_writes_total{cluster="tenant",kind="Role",verb="apply"} 20
# TYPE workqueue_depth gauge
workqueue_depth{controller="kokcontrolplane",name="kokcontrolplane",priority=""} 8
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller="kokcontrolplane"} 1
# TYPE go_gc_heap_live_bytes gauge
go_gc_heap_live_bytes 2.097152e+06
`

func TestCountsAreOfTheControllerAndByWhoAnswers(t *testing.T) {
	got, err := countsOf([]byte(someMetrics), "127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	want := counts{reconciles: 9, errors: 2, requests: 11, tenants: 11, writes: 7, tenantWrites: 20, waiting: 9, heap: 2,
		wrote: map[string]float64{"create Secret": 3, "apply Service": 4, "apply Role in tenants": 20}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
	if _, err := countsOf([]byte("not { metrics"), ""); err == nil {
		t.Error("what is no metrics is read")
	}
}

// measured are results that reach every target.
func measured(tenants int) *results {
	wave := func(tenants int, cpu float64) cost {
		return cost{tenants: tenants, took: 50 * time.Second, state: state{usage: usage{cpu: cpu, peak: 500}}}
	}
	r := &results{
		tenants: tenants, empty: usage{resident: 80}, settled: usage{peak: 80 + 0.9*float64(tenants)},
		first: wave(100, 20), rest: wave(tenants-100, 0.22*float64(tenants-100)),
		atRest: cost{tenants: tenants, took: 100 * time.Second, state: state{usage: usage{cpu: 4}}}, restart: wave(tenants, 30),
		edits: []time.Duration{time.Second, 1500 * time.Millisecond}, editRestarting: time.Second,
	}
	r.all, r.restart.took = r.first.and(r.rest), 40*time.Second
	return r
}

func TestATargetIsMissedByWhatIsAbove(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*results)
		want   string
	}{
		"none":                   {func(*results) {}, ""},
		"time":                   {func(r *results) { r.all.took = 361 * time.Second }, "manager_1000_seconds"},
		"memory":                 {func(r *results) { r.settled.peak = 1200 }, "manager_mib_per_tenant"},
		"a restart":              {func(r *results) { r.restart.took = time.Minute }, "manager_restart_idle_seconds"},
		"a write":                {func(r *results) { r.restart.writes = 1 }, "manager_restart_writes"},
		"a write to a tenant":    {func(r *results) { r.restart.tenantWrites = 1 }, "manager_restart_writes"},
		"an edit":                {func(r *results) { r.edits[1] = 3 * time.Second }, "manager_edit_seconds"},
		"an edit in the restart": {func(r *results) { r.editRestarting = 3 * time.Second }, "manager_edit_seconds"},
		"rest":                   {func(r *results) { r.atRest.cpu = 10 }, "manager_idle_cores"},
		"later tenants cost":     {func(r *results) { r.rest.cpu *= 2 }, "manager_cost_ratio_1000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := measured(1000)
			test.change(r)
			var missed []string
			for _, target := range r.targets() {
				if strings.Contains(r.verdict(target), "MISSED") {
					missed = append(missed, target.figure.Name)
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
		if said := strings.Contains(r.verdict(target), "the target is for 1000 tenants"); said != (r == few) {
			t.Errorf("%d tenants: %s", r.tenants, r.verdict(target))
		}
	}
}

func TestBothWavesAddUp(t *testing.T) {
	all := measured(300).all
	if all.tenants != 300 || all.took != 100*time.Second || math.Abs(all.cpu-64) > 1e-9 {
		t.Errorf("together they are %d tenants in %s with %g CPU-s", all.tenants, all.took, all.cpu)
	}
}

func TestWritesAreShownByKindTheMostFrequentFirst(t *testing.T) {
	before := counts{wrote: map[string]float64{"create Secret": 3, "apply Role": 20}}
	after := counts{wrote: map[string]float64{"create Secret": 4, "apply Role": 20, "apply Service": 4, "patch Pod": 4}}
	if got := (cost{state: state{counts: after.since(before)}}).writesByKind(); got != "writes: 4 apply Service, 4 patch Pod, 1 create Secret" {
		t.Error(got)
	}
	if got := (cost{}).writesByKind(); got != "writes: none" {
		t.Error(got)
	}
}
