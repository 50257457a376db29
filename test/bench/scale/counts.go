package main

import (
	"bytes"
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const controllerName = "kokcontrolplane"

// counts are what the manager's own metrics say since it started.
type counts struct {
	// reconciles, and errors of reconciles.
	reconciles, errors float64
	// requests are those to the management cluster's API server, tenants those to tenants' APIs.
	requests, tenants float64
	// writes are objects that the API server of the management cluster took, tenantWrites those that tenants took. The manager
	// counts neither Leases nor Events.
	writes, tenantWrites float64
	// wrote are both by verb and kind.
	wrote map[string]float64
	// toEtcds and toAPIs are the connections that were made to etcds and to tenants' APIs, as what stands in for these counts.
	toEtcds, toAPIs float64
	// waiting are control planes that wait for a reconcile, or are in one.
	waiting float64
	// heap is what the last garbage collection left, in MiB.
	heap float64
}

func (m *manager) counts(ctx context.Context) (counts, error) {
	text, err := get(ctx, "http://"+m.metrics+"/metrics")
	if err != nil {
		return counts{}, fmt.Errorf("read the manager's metrics: %w", err)
	}
	return countsOf(text, m.apiServer)
}

func countsOf(text []byte, apiServer string) (counts, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return counts{}, fmt.Errorf("read the manager's metrics: %w", err)
	}
	ours := func(m *dto.Metric) bool { return label(m, "controller") == controllerName }
	failed := func(m *dto.Metric) bool { return ours(m) && label(m, "result") == "error" }
	toTenant := func(m *dto.Metric) bool { return label(m, "cluster") == "tenant" }
	toAPIServer := func(m *dto.Metric) bool { return label(m, "host") == apiServer }
	all := func(*dto.Metric) bool { return true }
	wrote := map[string]float64{}
	for _, m := range families["kok_writes_total"].GetMetric() {
		what := label(m, "verb") + " " + label(m, "kind")
		if toTenant(m) {
			what += " in tenants"
		}
		wrote[what] += m.GetCounter().GetValue()
	}
	return counts{
		reconciles:   sum(families["controller_runtime_reconcile_total"], ours),
		errors:       sum(families["controller_runtime_reconcile_total"], failed),
		requests:     sum(families["rest_client_requests_total"], toAPIServer),
		tenants:      sum(families["rest_client_requests_total"], not(toAPIServer)),
		writes:       sum(families["kok_writes_total"], not(toTenant)),
		tenantWrites: sum(families["kok_writes_total"], toTenant),
		waiting:      sum(families["workqueue_depth"], ours) + sum(families["controller_runtime_active_workers"], ours),
		wrote:        wrote,
		heap:         sum(families["go_gc_heap_live_bytes"], all) / mebibyte,
	}, nil
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

// since is what came after.
func (c counts) since(before counts) counts {
	wrote := map[string]float64{}
	for what, n := range c.wrote {
		if n > before.wrote[what] {
			wrote[what] = n - before.wrote[what]
		}
	}
	return counts{
		wrote:      wrote,
		reconciles: c.reconciles - before.reconciles, errors: c.errors - before.errors, requests: c.requests - before.requests,
		tenants: c.tenants - before.tenants, writes: c.writes - before.writes, tenantWrites: c.tenantWrites - before.tenantWrites,
		toEtcds: c.toEtcds - before.toEtcds, toAPIs: c.toAPIs - before.toAPIs, waiting: c.waiting, heap: c.heap,
	}
}
