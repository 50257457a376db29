package manager

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
)

// Counts are what the manager's own metrics say since it started.
type Counts struct {
	// Reconciles, and Errors of reconciles, are those of the controllers that count.
	Reconciles, Errors float64
	// By are the reconciles of each controller that counts.
	By map[string]float64
	// Requests are those to the management cluster's API server, Tenants those to tenants' APIs.
	Requests, Tenants float64
	// Writes are objects that the API server of the management cluster took, TenantWrites those that tenants took. The manager
	// counts neither Leases nor Events.
	Writes, TenantWrites float64
	// Wrote are both by verb and kind.
	Wrote map[string]float64
	// ToEtcds and ToAPIs are the connections that were made to etcds and to tenants' APIs, as what stands in for these counts.
	ToEtcds, ToAPIs float64
	// Lists are those that the management cluster's API server answered, to whomever. For a list by labels it looks at every object of the
	// namespace.
	Lists float64
	// Waiting are objects that wait for a reconcile, or are in one.
	Waiting float64
	// Heap is what the last garbage collection left, in MiB.
	Heap float64
	// Goroutines are those that run, Descriptors the files and connections that are open.
	Goroutines, Descriptors float64
}

// Counts asks the manager for its metrics.
func (p *Process) Counts(ctx context.Context) (Counts, error) {
	text, err := get(ctx, "http://"+p.metrics+"/metrics")
	if err != nil {
		return Counts{}, fmt.Errorf("read the manager's metrics: %w", err)
	}
	return countsOf(text, p.apiServer, p.controllers...)
}

func countsOf(text []byte, apiServer string, controllers ...string) (Counts, error) {
	families, err := parse(text)
	if err != nil {
		return Counts{}, fmt.Errorf("read the manager's metrics: %w", err)
	}
	ours := func(m *dto.Metric) bool { return slices.Contains(controllers, label(m, "controller")) }
	failed := func(m *dto.Metric) bool { return ours(m) && label(m, "result") == "error" }
	toTenant := func(m *dto.Metric) bool { return label(m, "cluster") == "tenant" }
	toAPIServer := func(m *dto.Metric) bool { return label(m, "host") == apiServer }
	all := func(*dto.Metric) bool { return true }
	wrote, by := map[string]float64{}, map[string]float64{}
	for _, m := range families["kok_writes_total"].GetMetric() {
		what := label(m, "verb") + " " + label(m, "kind")
		if toTenant(m) {
			what += " in tenants"
		}
		wrote[what] += m.GetCounter().GetValue()
	}
	for _, controller := range controllers {
		by[controller] = sum(families["controller_runtime_reconcile_total"], func(m *dto.Metric) bool { return label(m, "controller") == controller })
	}
	return Counts{
		Reconciles:   sum(families["controller_runtime_reconcile_total"], ours),
		Errors:       sum(families["controller_runtime_reconcile_total"], failed),
		By:           by,
		Requests:     sum(families["rest_client_requests_total"], toAPIServer),
		Tenants:      sum(families["rest_client_requests_total"], not(toAPIServer)),
		Writes:       sum(families["kok_writes_total"], not(toTenant)),
		TenantWrites: sum(families["kok_writes_total"], toTenant),
		Waiting:      sum(families["workqueue_depth"], ours) + sum(families["controller_runtime_active_workers"], ours),
		Wrote:        wrote,
		Heap:         sum(families["go_gc_heap_live_bytes"], all) / mebibyte,
		Goroutines:   sum(families["go_goroutines"], all),
		Descriptors:  sum(families["process_open_fds"], all),
	}, nil
}

func parse(text []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// Lists asks the API server how many lists it has answered.
func (s *Stage) Lists(ctx context.Context) (float64, error) {
	clients, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return 0, err
	}
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return listsOf(text)
}

func listsOf(text []byte) (float64, error) {
	families, err := parse(text)
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return sum(families["apiserver_request_total"], func(m *dto.Metric) bool { return label(m, "verb") == "LIST" }), nil
}

func not(is func(*dto.Metric) bool) func(*dto.Metric) bool {
	return func(m *dto.Metric) bool { return !is(m) }
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.Label {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// sum adds the values of those metrics of a family that count.
func sum(family *dto.MetricFamily, of func(*dto.Metric) bool) float64 {
	total := 0.0
	for _, m := range family.GetMetric() {
		if of(m) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// Written are all writes, to whichever cluster.
func (c Counts) Written() float64 { return c.Writes + c.TenantWrites }

// Since is what came after.
func (c Counts) Since(before Counts) Counts {
	after := c
	after.Wrote, after.By = since(c.Wrote, before.Wrote), since(c.By, before.By)
	for number, was := range map[*float64]float64{
		&after.Reconciles: before.Reconciles, &after.Errors: before.Errors, &after.Requests: before.Requests, &after.Tenants: before.Tenants,
		&after.Writes: before.Writes, &after.TenantWrites: before.TenantWrites, &after.ToEtcds: before.ToEtcds, &after.ToAPIs: before.ToAPIs,
		&after.Lists: before.Lists,
	} {
		*number -= was
	}
	return after
}

func since(now, before map[string]float64) map[string]float64 {
	after := map[string]float64{}
	for what, n := range now {
		if n > before[what] {
			after[what] = n - before[what]
		}
	}
	return after
}
