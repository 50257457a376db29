//go:build e2e

package capi

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

// waiters wait for a KOKControlPlane where specs else wait for a KubeadmControlPlane and its Machines.
func (e *environment) waiters() clusterctl.ControlPlaneWaiters {
	return clusterctl.ControlPlaneWaiters{
		WaitForControlPlaneInitialized: func(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, result *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {
			e.waitControlPlane(ctx, result.Cluster, conditionsv1.InitializedCondition, input.WaitForControlPlaneIntervals)
			e.installNetwork(ctx, result.Cluster)
		},
		WaitForControlPlaneMachinesReady: func(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, result *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {
			e.waitControlPlane(ctx, result.Cluster, conditionsv1.AvailableCondition, input.WaitForControlPlaneIntervals)
		},
	}
}

// waitControlPlane waits until a condition of a Cluster's control plane is true, and says what it said instead.
func (e *environment) waitControlPlane(ctx context.Context, cluster *clusterv1.Cluster, wanted string, intervals []any) {
	Eventually(func(g Gomega) {
		named := &clusterv1.Cluster{}
		g.Expect(e.Client.Get(ctx, client.ObjectKeyFromObject(cluster), named)).To(Succeed())
		ref := named.Spec.ControlPlaneRef
		g.Expect(ref.Kind).To(Equal("KOKControlPlane"), "spec.controlPlaneRef of Cluster %s", client.ObjectKeyFromObject(cluster))
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(e.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, controlPlane)).To(Succeed())
		condition := conditions.Get(controlPlane, wanted)
		g.Expect(condition).NotTo(BeNil(), "condition %s", wanted)
		g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), "%s: %s", wanted, condition.Message)
		g.Expect(ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false)).To(BeTrue(), "status.initialization.controlPlaneInitialized")
	}, intervals...).Should(Succeed(), "KOKControlPlane of Cluster %s", client.ObjectKeyFromObject(cluster))
}

// installNetwork applies the manifests of a pod network to a Cluster, as specs do with those of their configuration.
// Its API may have answered its own control plane alone so far.
func (e *environment) installNetwork(ctx context.Context, cluster *clusterv1.Cluster) {
	tenant := e.proxy.GetWorkloadCluster(ctx, cluster.Namespace, cluster.Name)
	defer tenant.Dispose(ctx)
	Eventually(func() error { return tenant.CreateOrUpdate(ctx, e.network) }).WithTimeout(time.Minute).
		Should(Succeed(), "the pod network of Cluster %s", client.ObjectKeyFromObject(cluster))
}
