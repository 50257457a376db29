package main

import (
	"testing"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/flags"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/metrics"
)

func TestMetricsAreAsTheReferenceSays(t *testing.T) {
	metrics.OfManager(t, metrics.ControlPlane, newScheme(), func(mgr ctrl.Manager) error {
		table, err := supported.SetupWithManager(mgr, "kok-control-plane-system")
		if err != nil {
			return err
		}
		return setUp(t.Context(), mgr, &options{portNamespace: "kok-control-plane-system"}, webhooks.Limits{}, table)
	})
}

func TestAnInstallationCanSetFlags(t *testing.T) {
	known := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	(&options{}).addTo(known)
	flags.OfManager(t, "../config/controlplane/manager/manager.yaml", known)
}
