package operator

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Recoveries counts replacements of lost members that have begun. Package metrics begins the series of a tenant with 0, and drops those of
// tenants that are gone.
var Recoveries = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kok_etcd_recoveries_total",
	Help: "Replacements of members of an etcd cluster that lost their data or their host node.",
}, []string{"cluster_namespace", "cluster_name", "etcd"})

func init() { ctrlmetrics.Registry.MustRegister(Recoveries) }
