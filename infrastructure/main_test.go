package main

import (
	"testing"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/flags"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/metrics"
)

func TestMetricsAreAsTheReferenceSays(t *testing.T) {
	metrics.OfManager(t, metrics.Infrastructure, newScheme(), func(mgr ctrl.Manager) error {
		return setUp(t.Context(), mgr, &options{})
	})
}

func TestAnInstallationCanSetFlags(t *testing.T) {
	known := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	(&options{}).addTo(known)
	flags.OfManager(t, "../config/infrastructure/manager/manager.yaml", known)
}
