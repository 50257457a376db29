package main

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/flags"
)

func TestATenantIsConnectedToOnceItHasAnAPI(t *testing.T) {
	for name, test := range map[string]struct {
		initialized *bool
		want        bool
	}{
		"nothing is known of its control plane": {nil, false},
		"its control plane is being made":       {ptr.To(false), false},
		"its control plane has answered":        {ptr.To(true), true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{
				// Hosts are there long before an API is.
				InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: test.initialized,
			}}}
			if got := hasAPI(cluster); got != test.want {
				t.Errorf("it is connected to: %t", got)
			}
		})
	}
}

func TestAnInstallationCanSetFlags(t *testing.T) {
	known := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	(&options{}).addTo(known)
	flags.OfManager(t, "../config/bootstrap/manager/manager.yaml", known)
}
