//go:build envtest

package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// At the end every object, and every stored rendering, is as after an upgrade without faults.
func TestAnUpgradeSurvivesFaults(t *testing.T) {
	smooth := beforeUpgrade(t)
	smooth.eachPodWasMade(1)
	smooth.start(&gate{})
	smooth.upgrade()
	smooth.settle()
	smooth.eachPodWasMade(2)
	want := smooth.inWordsOfAll()
	t.Logf("an upgrade takes %d writes", smooth.program.gate.total())

	withFaults(t, beforeUpgrade, func(tt *tenantTest) {
		tt.upgrade()
		tt.settleThroughFaults()
		tt.eachPodWasMade(2)
		if diff := cmp.Diff(want, tt.inWordsOfAll()); diff != "" {
			tt.t.Errorf("objects differ (-without faults +with faults):\n%s", diff)
		}
	})
}

// beforeUpgrade is a settled tenant of v1.35.4, of which every pod can be replaced.
func beforeUpgrade(t *testing.T) *tenantTest {
	t.Helper()
	return beforeUpgradeOf(t, lasting)
}

// beforeUpgradeOf is a settled tenant of v1.35.4 whose etcds are lasting, or have their data in their pods.
func beforeUpgradeOf(t *testing.T, edit func(*controlplanev1.KOKControlPlane)) *tenantTest {
	t.Helper()
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		edit(c)
		c.Spec.Version = "v1.35.4"
	})
	tt.settle()
	return tt
}

// upgrade goes to v1.36.3, and changes the members of etcd too, which have a version of their own.
func (tt *tenantTest) upgrade() {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Version = "v1.36.3"
		for _, etcd := range []*controlplanev1.EtcdClusterSpec{&c.Spec.Etcd.Data, &c.Spec.Etcd.Events.EtcdClusterSpec} {
			etcd.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m")}}
		}
	})
}
