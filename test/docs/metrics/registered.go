// Package metrics compares the metrics that programs register with docs/reference/metrics.md.
package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metric is what a program says of a metric before it says a number.
type Metric struct {
	// Type is counter, gauge, histogram or summary.
	Type string
	// Labels are sorted.
	Labels []string
}

// Registry is a registry of Prometheus.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
	prometheus.Collector
}

// Registered are all metrics of a registry by their names, also those that nobody has counted with yet: those
// get a sample.
func Registered(registry Registry) (map[string]Metric, error) {
	for _, description := range descriptions(registry) {
		if err := addSample(registry, description); err != nil {
			return nil, err
		}
	}
	return Gathered(registry)
}

func descriptions(collector prometheus.Collector) []*prometheus.Desc {
	found := make(chan *prometheus.Desc)
	go func() {
		collector.Describe(found)
		close(found)
	}()
	var all []*prometheus.Desc
	for description := range found {
		all = append(all, description)
	}
	return all
}

// described is a collector with one description. A registry that has a collector with the same one refuses it
// and gives that collector in its place.
type described struct{ *prometheus.Desc }

func (d described) Describe(all chan<- *prometheus.Desc) { all <- d.Desc }

func (d described) Collect(chan<- prometheus.Metric) {}

// manyLabels is more than any metric has.
const manyLabels = 20

// addSample makes the collector of a description have a sample when it has one for each set of labels.
func addSample(registry prometheus.Registerer, description *prometheus.Desc) error {
	err := registry.Register(described{description})
	var present prometheus.AlreadyRegisteredError
	if !errors.As(err, &present) {
		return nil // It has several descriptions, and collects something for each.
	}
	for count := range manyLabels {
		values := slices.Repeat([]string{"sample"}, count)
		switch vector := present.ExistingCollector.(type) {
		case *prometheus.CounterVec:
			_, err = vector.GetMetricWithLabelValues(values...)
		case *prometheus.GaugeVec:
			_, err = vector.GetMetricWithLabelValues(values...)
		case *prometheus.HistogramVec:
			_, err = vector.GetMetricWithLabelValues(values...)
		case *prometheus.SummaryVec:
			_, err = vector.GetMetricWithLabelValues(values...)
		default:
			return nil
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s takes no sample: %w", description, err)
}

// Gathered are the metrics that have a sample.
func Gathered(gatherer prometheus.Gatherer) (map[string]Metric, error) {
	families, err := gatherer.Gather()
	if err != nil {
		return nil, err
	}
	all := map[string]Metric{}
	for _, family := range families {
		all[family.GetName()] = Of(family)
	}
	return all, nil
}

// Of is what a family of samples says of its metric.
func Of(family *dto.MetricFamily) Metric {
	metric := Metric{Type: strings.ToLower(family.GetType().String())}
	for _, label := range family.GetMetric()[0].GetLabel() {
		metric.Labels = append(metric.Labels, label.GetName())
	}
	slices.Sort(metric.Labels)
	return metric
}
