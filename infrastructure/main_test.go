package main

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/metrics"
)

func TestMetricsAreAsTheReferenceSays(t *testing.T) {
	metrics.OfManager(t, metrics.Infrastructure, newScheme(), func(mgr ctrl.Manager) error {
		return setUp(t.Context(), mgr, &options{})
	})
}
