package controllers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// A worker that can never join must not take a host, and its owner must know why.
func TestMachinesThatCannotReachTheAPIServersAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		exposure controlplanev1.ExposureType
		machine  string
		refused  bool
	}{
		"a data centre's of one that is not exposed":            {controlplanev1.ExposureNone, "IDCMachine", true},
		"a data centre's of one behind a load balancer":         {controlplanev1.ExposureLoadBalancer, "IDCMachine", false},
		"a data centre's of one on the host network":            {"", "IDCMachine", false},
		"another infrastructure's, which may be inside, of any": {controlplanev1.ExposureNone, "KubevirtMachine", false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := ready()
			objects[0].(*clusterv1.Cluster).Spec.ControlPlaneRef = kokControlPlane
			objects[1].(*clusterv1.Machine).Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
				APIGroup: "infrastructure.cluster.x-k8s.io", Kind: test.machine, Name: "worker-1",
			}
			controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: kokControlPlane.Name}}
			controlPlane.Spec.Hosting.Exposure.Type = test.exposure
			f := newFixture(t, append(objects, controlPlane)...)
			f.mustReconcile()
			condition := conditions.Get(f.config(), bootstrapv1.DataSecretAvailableCondition)
			refused := condition.Reason == bootstrapv1.APIServersOutOfReachReason
			if refused != test.refused || refused != strings.Contains(condition.Message, "hosting.exposure.type is None") {
				t.Errorf("the condition is %v", condition)
			}
			if refused && f.tokensCreated > 0 {
				t.Error("it got a token")
			}
		})
	}
}
