//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

// Conditions of a KOKControlPlane that is well: these are true beside those that are healthy, the others false.
var (
	trueWhenWell  = []string{conditionsv1.ReconciledCondition, conditionsv1.AddonsInstalledCondition}
	falseWhenWell = []string{
		conditionsv1.RollingOutCondition, conditionsv1.ScalingUpCondition, conditionsv1.ScalingDownCondition,
		conditionsv1.DeletingCondition, clusterv1.PausedCondition,
	}
)

// expectAllWell waits until every condition of the control plane and its Cluster, in a management cluster, is as it is
// when nothing is wrong and nothing goes on.
func (t *tenant) expectAllWell(ctx context.Context, management client.Client) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(management.Get(ctx, t.ObjectKey, controlPlane)).To(Succeed())
		g.Expect(controlPlane.Status.ObservedGeneration).To(Equal(controlPlane.Generation), "observedGeneration")
		expect := func(status metav1.ConditionStatus, all ...string) {
			for _, name := range all {
				condition := conditions.Get(controlPlane, name)
				g.Expect(condition).NotTo(BeNil(), "condition %s", name)
				g.Expect(condition.Status).To(Equal(status), "%s: %s", name, condition.Message)
			}
		}
		expect(metav1.ConditionTrue, healthy...)
		expect(metav1.ConditionTrue, trueWhenWell...)
		expect(metav1.ConditionFalse, falseWhenWell...)
		cluster := t.clusterObject()
		g.Expect(management.Get(ctx, t.ObjectKey, cluster)).To(Succeed())
		if !cluster.Spec.InfrastructureRef.IsDefined() {
			return // Cluster API never knows of such a Cluster whether it is available.
		}
		available := conditions.Get(cluster, clusterv1.ClusterAvailableCondition)
		g.Expect(available).NotTo(BeNil())
		g.Expect(available.Status).To(Equal(metav1.ConditionTrue), "Cluster: %s", available.Message)
	}).WithTimeout(join).Should(Succeed(), "conditions of %s", t.ObjectKey)
}
