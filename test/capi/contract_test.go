//go:build e2e

package capi

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// expectContract holds a tenant to what Cluster API expects of every provider's objects, as it does in its own suite:
// who owns them, what holds them back, that both come back when somebody takes them away, and that none is written
// while nothing happens.
func (e *environment) expectContract(byTopology bool) func(framework.ClusterProxy, string, string) {
	finalizersOfCore := framework.CoreFinalizersAssertionWithLegacyClusters
	if byTopology {
		finalizersOfCore = framework.CoreFinalizersAssertionWithClassyClusters
	}
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		filter := objectsOf(namespace, cluster)
		owners := []map[string]func(types.NamespacedName, []metav1.OwnerReference) error{
			framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, ownersOfOurs(byTopology),
		}
		By("Checking that owner references are resilient")
		framework.ValidateOwnerReferencesResilience(background, proxy, namespace, cluster, filter, owners...)
		By("Checking that owner references are updated to the correct API version")
		framework.ValidateOwnerReferencesOnUpdate(background, proxy, namespace, cluster, filter, owners...)
		By("Checking that finalizers are resilient")
		framework.ValidateFinalizersResilience(background, proxy, namespace, cluster, filter,
			finalizersOfCore, framework.ExpFinalizersAssertion, e.finalizersOfOurs())
		By("Checking that resourceVersions are stable")
		framework.ValidateResourceVersionStable(background, framework.ValidateResourceVersionStableInput{
			ClusterProxy: proxy, Namespace: namespace, OwnerGraphFilterFunction: filter,
			WaitToBecomeStable: e.config.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
			WaitToRemainStable: e.config.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
		})
	}
}

// objectsOf leaves Secrets of the infrastructure provider's own namespace out: they are no tenant's.
func objectsOf(namespace, cluster string) clusterctlcluster.GetOwnerGraphFilterFunction {
	ofCluster := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
	return func(object unstructured.Unstructured) bool {
		return (object.GetNamespace() == "" || object.GetNamespace() == namespace) && ofCluster(object)
	}
}

// ownersOfOurs says who owns objects of this repository's kinds, and those that its controllers make. Cluster API
// controls what a topology made, and only owns what a person made.
func ownersOfOurs(byTopology bool) map[string]func(types.NamespacedName, []metav1.OwnerReference) error {
	core := clusterv1.GroupVersion.String()
	ofCluster := metav1.OwnerReference{APIVersion: core, Kind: "Cluster"}
	ofClass := metav1.OwnerReference{APIVersion: core, Kind: "ClusterClass"}
	controlledBy := func(version, kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Controller: ptr.To(true)}
	}
	machine := controlledBy(core, "Machine")
	controlPlane := controlledBy(controlplanev1.GroupVersion.String(), "KOKControlPlane")
	config := controlledBy(bootstrapv1.GroupVersion.String(), "KOKConfig")
	root := ofCluster
	if byTopology {
		root = controlledBy(core, "Cluster")
	}
	exactly := func(owners ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
		return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasExactOwners(got, owners...)
		}
	}
	clusterOrClass := func(_ types.NamespacedName, got []metav1.OwnerReference) error {
		return framework.HasOneOfExactOwners(got, []metav1.OwnerReference{ofCluster}, []metav1.OwnerReference{ofClass})
	}
	return map[string]func(types.NamespacedName, []metav1.OwnerReference) error{
		"KOKControlPlane":         exactly(root),
		"IDCCluster":              exactly(root),
		"KOKControlPlaneTemplate": exactly(ofClass),
		"IDCClusterTemplate":      exactly(ofClass),
		"KOKConfigTemplate":       clusterOrClass,
		"IDCMachineTemplate":      clusterOrClass,
		"KOKConfig":               exactly(machine),
		"IDCMachine":              exactly(machine),
		"IDCHost":                 exactly(), // It is a person's, and stays when a Cluster goes.
		"ConfigMap":               exactly(controlPlane),
		"Secret": func(key types.NamespacedName, got []metav1.OwnerReference) error {
			if key.Name == workers.KeySecret {
				return framework.HasExactOwners(got)
			}
			return framework.HasOneOfExactOwners(got, []metav1.OwnerReference{controlPlane}, []metav1.OwnerReference{config})
		},
	}
}

// finalizersOfOurs says what holds objects of this repository's kinds back: an IDCHost is held by who has it.
func (e *environment) finalizersOfOurs() map[string]func(types.NamespacedName) []string {
	return map[string]func(types.NamespacedName) []string{
		"KOKControlPlane": func(types.NamespacedName) []string { return []string{controlplanev1.KOKControlPlaneFinalizer} },
		"IDCMachine":      func(types.NamespacedName) []string { return []string{infrav1.IDCMachineFinalizer} },
		"IDCHost": func(key types.NamespacedName) []string {
			host := &infrav1.IDCHost{}
			Expect(e.Client.Get(background, key, host)).To(Succeed())
			if host.Spec.Claim == nil {
				return nil
			}
			return []string{infrav1.IDCHostFinalizer}
		},
	}
}
