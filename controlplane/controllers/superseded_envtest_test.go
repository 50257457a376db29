//go:build envtest

package controllers

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func (tt *tenantTest) controllerManagers(replicas int32) {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.KubeControllerManager.Replicas = ptr.To(replicas)
	})
	tt.settle()
}

func TestABudgetGoesWithTheReplicasThatItGuards(t *testing.T) {
	t.Parallel()
	const budget = "PodDisruptionBudget blue-kube-controller-manager"
	tt := newTenantTest(t, small)
	tt.settle()
	before := tt.contents()
	for _, replicas := range []int32{1, 2, 1, 2} {
		tt.controllerManagers(replicas)
		after := tt.contents()
		if there := after[budget] != nil; there != (replicas > 1) {
			t.Errorf("with %d replicas there is a budget: %t", replicas, there)
		}
		for name := range before {
			if name != budget && after[name] == nil {
				t.Errorf("with %d replicas there is no %s", replicas, name)
			}
		}
		tt.writesNothing("with other replicas")
	}

	t.Run("but not one that is not the tenant's", func(t *testing.T) {
		theirs := tt.generated()[budget].(*policyv1.PodDisruptionBudget)
		edit(t, client.ObjectKeyFromObject(theirs), theirs, func(b *policyv1.PodDisruptionBudget) { b.Labels = nil })
		tt.controllerManagers(1)
		if tt.generated()[budget] == nil {
			t.Error("it is gone")
		}
	})
}
