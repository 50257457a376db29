package references

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestReferences(t *testing.T) {
	for name, test := range map[string]struct {
		group, kind                    string
		isKOKControlPlane, isKOKConfig bool
	}{
		"nothing":                           {"", "", false, false},
		"a KOKControlPlane":                 {"controlplane.cluster.x-k8s.io", "KOKControlPlane", true, false},
		"another control plane":             {"controlplane.cluster.x-k8s.io", "KubeadmControlPlane", false, false},
		"a KOKControlPlane of other people": {"example.com", "KOKControlPlane", false, false},
		"a KOKConfig":                       {"bootstrap.cluster.x-k8s.io", "KOKConfig", false, true},
		"another config":                    {"bootstrap.cluster.x-k8s.io", "KubeadmConfig", false, false},
		"a KOKConfig of other people":       {"example.com", "KOKConfig", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := clusterv1.ContractVersionedObjectReference{APIGroup: test.group, Kind: test.kind, Name: "a"}
			cluster, machine := &clusterv1.Cluster{}, &clusterv1.Machine{}
			cluster.Spec.ControlPlaneRef, machine.Spec.Bootstrap.ConfigRef = ref, ref
			if HasKOKControlPlane(cluster) != test.isKOKControlPlane || HasKOKConfig(machine) != test.isKOKConfig {
				t.Errorf("%t, %t", HasKOKControlPlane(cluster), HasKOKConfig(machine))
			}
		})
	}
}
