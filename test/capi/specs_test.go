//go:build e2e

package capi

import (
	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
)

// withHosts is a container of one of Cluster API's specs, which ends with the hosts that the spec had.
func withHosts(body func()) func() {
	return func() {
		AfterEach(func(ctx SpecContext) { env.takeHostsBack(ctx) }, NodeTimeout(deletion))
		// Hosts are looked at when the spec has deleted what it made: what is further out comes later.
		Context("Cluster API", body)
	}
}

var _ = Describe("The template for people", withHosts(func() {
	e2e.QuickStartSpec(background, func() e2e.QuickStartSpecInput { return quickStart("", false) })
}))

var _ = Describe("The template with a topology", withHosts(func() {
	e2e.QuickStartSpec(background, func() e2e.QuickStartSpecInput { return quickStart("topology", true) })
}))

func quickStart(flavour string, byTopology bool) e2e.QuickStartSpecInput {
	return e2e.QuickStartSpecInput{
		E2EConfig: env.config, ClusterctlConfigPath: env.clusterctlConfig, BootstrapClusterProxy: env.proxy, ArtifactFolder: env.artifacts,
		ControlPlaneWaiters: env.waiters(), InfrastructureProvider: ptr.To(infrastructure), PostNamespaceCreated: env.giveHosts,
		Flavor: &flavour, PostMachinesProvisioned: env.expectContract(byTopology),
	}
}

var _ = Describe("More and fewer workers", withHosts(func() {
	e2e.MachineDeploymentScaleSpec(background, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: env.config, ClusterctlConfigPath: env.clusterctlConfig, BootstrapClusterProxy: env.proxy, ArtifactFolder: env.artifacts,
			ControlPlaneWaiters: env.waiters(), InfrastructureProvider: ptr.To(infrastructure), PostNamespaceCreated: env.giveHosts,
		}
	})
}))

var _ = Describe("Workers that are not healthy", withHosts(func() {
	e2e.MachineDeploymentRemediationSpec(background, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: env.config, ClusterctlConfigPath: env.clusterctlConfig, BootstrapClusterProxy: env.proxy, ArtifactFolder: env.artifacts,
			ControlPlaneWaiters: env.waiters(), InfrastructureProvider: ptr.To(infrastructure), PostNamespaceCreated: env.giveHosts,
			Flavor: ptr.To(RemediationFlavour),
		}
	})
}))

// None of the fields that are modified has a variable with a value in this flavour, which would win.
var _ = Describe("The class, changed and exchanged", withHosts(func() {
	e2e.ClusterClassChangesSpec(background, func() e2e.ClusterClassChangesSpecInput {
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: env.config, ClusterctlConfigPath: env.clusterctlConfig, BootstrapClusterProxy: env.proxy, ArtifactFolder: env.artifacts,
			ControlPlaneWaiters: env.waiters(), InfrastructureProvider: ptr.To(infrastructure), PostNamespaceCreated: env.giveHosts,
			Flavor:                   ReplicasFlavour,
			ModifyControlPlaneFields: map[string]any{"spec.kubeScheduler.extraArgs": []any{map[string]any{"name": "v", "value": "4"}}},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{
				"spec.template.spec.kubelet.nodeLabels": map[string]any{"example.com/class": "changed"},
			},
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
				"spec.template.spec.minCapacity": map[string]any{"memory": "1Mi"},
			},
		}
	})
}))

// Workers go first, then the control plane, then the infrastructure: each is held back once.
var _ = Describe("The deletion of a Cluster", withHosts(func() {
	e2e.ClusterDeletionSpec(background, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: env.config, ClusterctlConfigPath: env.clusterctlConfig, BootstrapClusterProxy: env.proxy, ArtifactFolder: env.artifacts,
			ControlPlaneWaiters: env.waiters(), InfrastructureProvider: ptr.To(infrastructure), PostNamespaceCreated: env.giveHosts,
			Flavor: ptr.To("topology"),
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				{ObjectFilter: kinds("Machine", "MachineSet", "MachineDeployment"), BlockingObjectFilter: kinds("Machine")},
				{ObjectFilter: kinds("KOKControlPlane"), BlockingObjectFilter: kinds("KOKControlPlane")},
				{ObjectFilter: kinds("IDCCluster"), BlockingObjectFilter: kinds("IDCCluster")},
			},
		}
	})
}))

// kinds is a filter of objects by their kind.
func kinds(names ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
	wanted := sets.New(names...)
	return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool { return wanted.Has(object.Kind) }
}
