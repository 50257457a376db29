package manager

import (
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
# TYPE go_goroutines gauge
go_goroutines 30
# TYPE process_open_fds gauge
process_open_fds 12
`

func TestCountsAreOfTheControllerAndByWhoAnswers(t *testing.T) {
	got, err := countsOf([]byte(someMetrics), "127.0.0.1:6443", "kokcontrolplane")
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{Reconciles: 9, Errors: 2, Requests: 11, Tenants: 11, Writes: 7, TenantWrites: 20, Waiting: 9, Heap: 2, Goroutines: 30, Descriptors: 12,
		By: map[string]float64{"kokcontrolplane": 9}, Wrote: map[string]float64{"create Secret": 3, "apply Service": 4, "apply Role in tenants": 20}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := countsOf([]byte("not { metrics"), ""); err == nil {
		t.Error("what is no metrics is read")
	}
}

func TestListsAreThoseOfAllKindsAndAnswers(t *testing.T) {
	got, err := listsOf([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",verb="LIST"} 3
apiserver_request_total{code="403",resource="secrets",verb="LIST"} 1
apiserver_request_total{code="200",resource="pods",verb="WATCH"} 20
apiserver_request_total{code="200",resource="pods",verb="GET"} 300
`))
	if err != nil || got != 4 {
		t.Errorf("%v lists, %v", got, err)
	}
}

func TestTwoCostsAddUp(t *testing.T) {
	first := Cost{Number: 100, Took: time.Minute, State: State{Usage: Usage{CPU: 20, Peak: 500}, Counts: Counts{Requests: 7, TenantWrites: 2}}}
	later := Cost{Number: 200, Took: time.Second, State: State{Usage: Usage{CPU: 44, Peak: 700}, Counts: Counts{Requests: 3, TenantWrites: 1}}}
	want := Cost{Number: 300, Took: 61 * time.Second, State: State{Usage: Usage{CPU: 64, Peak: 700}, Counts: Counts{Requests: 10, TenantWrites: 3}}}
	if diff := cmp.Diff(want, first.And(later)); diff != "" {
		t.Error(diff)
	}
}

func TestWritesAreShownByKindTheMostFrequentFirst(t *testing.T) {
	before := Counts{Wrote: map[string]float64{"create Secret": 3, "apply Role": 20}}
	after := Counts{Wrote: map[string]float64{"create Secret": 4, "apply Role": 20, "apply Service": 4, "patch Pod": 4}}
	if got := (Cost{State: State{Counts: after.Since(before)}}).WritesByKind(); got != "writes: 4 apply Service, 4 patch Pod, 1 create Secret" {
		t.Error(got)
	}
	if got := (Cost{}).WritesByKind(); got != "writes: none" {
		t.Error(got)
	}
}
