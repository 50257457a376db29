// Package metrics holds the metrics of control planes.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

var stepDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "kok_control_plane_step_duration_seconds",
	Help:    "How long one step of a reconcile of a control plane took.",
	Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
}, []string{"step"})

func init() { ctrlmetrics.Registry.MustRegister(stepDuration) }

// ObserveStep notes how long a step took.
func ObserveStep(step string, took time.Duration) {
	stepDuration.WithLabelValues(step).Observe(took.Seconds())
}

// tenantStates are the values of the label of kok_control_planes.
var tenantStates = []string{"available", "unavailable", "unknown", "paused", "deleting"}

// NewCollector returns a collector that counts control planes by state, from a cache, each time it is collected.
func NewCollector(reader client.Reader) prometheus.Collector { return &tenantCollector{reader} }

type tenantCollector struct{ reader client.Reader }

var tenantsDescription = prometheus.NewDesc("kok_control_planes",
	"Control planes by state: available, unavailable, unknown, paused or deleting.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (c *tenantCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- tenantsDescription
}

// Collect implements prometheus.Collector.
func (c *tenantCollector) Collect(collected chan<- prometheus.Metric) {
	list := &controlplanev1.KOKControlPlaneList{}
	if err := c.reader.List(context.Background(), list); err != nil {
		collected <- prometheus.NewInvalidMetric(tenantsDescription, err)
		return
	}
	counts := map[string]int{}
	for i := range list.Items {
		counts[tenantState(&list.Items[i])]++
	}
	for _, state := range tenantStates {
		collected <- prometheus.MustNewConstMetric(tenantsDescription, prometheus.GaugeValue, float64(counts[state]), state)
	}
}

// tenantState is the state that metrics count a control plane under.
func tenantState(controlPlane *controlplanev1.KOKControlPlane) string {
	switch {
	case !controlPlane.DeletionTimestamp.IsZero():
		return "deleting"
	case conditions.IsTrue(controlPlane, clusterv1.PausedCondition):
		return "paused"
	case conditions.IsTrue(controlPlane, conditionsv1.AvailableCondition):
		return "available"
	case conditions.IsFalse(controlPlane, conditionsv1.AvailableCondition):
		return "unavailable"
	}
	return "unknown"
}
