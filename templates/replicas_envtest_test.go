//go:build envtest

package templates

import (
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// handedOver leaves the number of API servers to who scales them, and takes it back.
func handedOver(t *testing.T, blue *managed) {
	other := blue.another(t, "scaled", func(cluster *clusterv1.Cluster) {
		set("apiServerWorkload", `"Deployment"`)(&cluster.Spec.Topology)
		cluster.Spec.Topology.ControlPlane.Replicas = ptr.To[int32](5)
	})
	other.hasAPIServers(t, 5)
	other.topologyReplicas(t, nil)
	other.hasAPIServers(t, 5)
	other.scale(t, 3)
	other.controlPlaneIsOnlyCompared(t)
	other.hasAPIServers(t, 3)
	removal := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":null}}`))
	if err := other.client.Patch(t.Context(), other.controlPlane(t), removal); err != nil {
		t.Fatal(err)
	}
	other.hasAPIServers(t, 3)
	other.topologyReplicas(t, ptr.To[int32](4))
	other.hasAPIServers(t, 4)
}

func (c *managed) controlPlane(t *testing.T) *controlplanev1.KOKControlPlane {
	t.Helper()
	controlPlane := &controlplanev1.KOKControlPlane{}
	c.get(t, c.name, controlPlane)
	return controlPlane
}

func (c *managed) hasAPIServers(t *testing.T, want int32) {
	t.Helper()
	if got := c.controlPlane(t).Spec.Replicas; got == nil || *got != want {
		t.Fatalf("spec.replicas is %d, not %d", ptr.Deref(got, 0), want)
	}
}

// topologyReplicas has the topology name a number, or none.
func (c *managed) topologyReplicas(t *testing.T, replicas *int32) {
	t.Helper()
	if err := c.edit(t, func(topology *clusterv1.Topology) { topology.ControlPlane.Replicas = replicas }); err != nil {
		t.Fatal(err)
	}
	c.reconciled(t)
}

// scale does what kubectl scale and an autoscaler do.
func (c *managed) scale(t *testing.T, replicas int32) {
	t.Helper()
	controlPlane, scale := c.controlPlane(t), &autoscalingv1.Scale{}
	if err := c.client.SubResource("scale").Get(t.Context(), controlPlane, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = replicas
	if err := c.client.SubResource("scale").Update(t.Context(), controlPlane, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
}

// controlPlaneIsOnlyCompared has Cluster API's manager compare everything anew, and find nothing to write.
func (c *managed) controlPlaneIsOnlyCompared(t *testing.T) {
	t.Helper()
	c.settle(t)
	seen := len(c.requests(t))
	c.restartManager(t)
	c.reconcile(t)
	compared := false
	for _, request := range c.requests(t)[seen:] {
		if !strings.Contains(request.text, "/kokcontrolplanes/"+c.name+"?") {
			continue
		}
		compared = compared || request.dryRun
		if !request.dryRun {
			t.Errorf("it was written: %s", request.text)
		}
	}
	if !compared {
		t.Error("it was not compared")
	}
}
