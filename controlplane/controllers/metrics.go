package controllers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

var stepDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "kok_control_plane_step_duration_seconds",
	Help:    "How long one step of a reconcile of a control plane took.",
	Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
}, []string{"step"})

func init() { metrics.Registry.MustRegister(stepDuration) }

func observeStep(step string, took time.Duration) {
	stepDuration.WithLabelValues(step).Observe(took.Seconds())
}

// tenantStates are the values of the label of kok_control_planes.
var tenantStates = []string{"available", "unavailable", "unknown", "paused", "deleting"}

// tenantCollector counts control planes by state when it is asked, from the cache.
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
