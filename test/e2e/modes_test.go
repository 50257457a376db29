//go:build e2e

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// mode is how a control plane is hosted. The zero value is the usual one: on the host network, an API server on every
// host node.
type mode struct {
	// name is for people, short begins the names of its tenants.
	name, short string
	// exposure is how API servers on the pod network are reached; empty on the host network.
	exposure controlplanev1.ExposureType
	workload controlplanev1.APIServerWorkload
}

// modes are those beside the usual one, in which everything else is tested: every network, exposure and workload.
var modes = []mode{
	{"HostNetwork and Deployment", "host", "", controlplanev1.APIServerDeployment},
	{"PodNetwork, LoadBalancer and Deployment", "balanced", controlplanev1.ExposureLoadBalancer, controlplanev1.APIServerDeployment},
	{"PodNetwork, NodePort and DaemonSet", "node-port", controlplanev1.ExposureNodePort, controlplanev1.APIServerDaemonSet},
	{"PodNetwork, None and Deployment", "inside", controlplanev1.ExposureNone, controlplanev1.APIServerDeployment},
}

var _ = Describe("Control planes with", Label(full, everyMode), func() {
	for _, m := range modes {
		Describe(m.name, Label(m.label()), func() {
			Describe("in the journey of two tenants (A6)", Ordered, func() {
				needs(m)
				j := &journey{
					a: newTenant(m.short+"-a", "v1.36.3", nil),
					b: newTenant(m.short+"-b", "v1.35.4", single()),
				}
				j.a.mode, j.b.mode = m, m
				j.specs()
			})
			Describe("under load (A6)", Ordered, func() {
				needs(m)
				underLoad(m)
			})
		})
	}
})

// needs gives the host cluster what a mode needs of it, until the specs of a container end.
func needs(m mode) {
	BeforeAll(func(ctx SpecContext) {
		requireLab()
		if m.exposure == controlplanev1.ExposureLoadBalancer {
			installMetalLB(ctx)
		}
	}, NodeTimeout(building+creation))
}

func (m mode) onPodNetwork() bool { return m.exposure != "" }

// label is that of its specs.
func (m mode) label() string {
	if m.onPodNetwork() {
		return podNetworkModes
	}
	return hostNetworkModes
}

func (m mode) isDeployment() bool { return m.workload == controlplanev1.APIServerDeployment }

// reachesWorkers is true when API servers are reached from outside of the host cluster, where the lab's workers are.
func (m mode) reachesWorkers() bool { return m.exposure != controlplanev1.ExposureNone }

// specReplicas is what spec.replicas says of a control plane that was made without it.
func (m mode) specReplicas() types.GomegaMatcher {
	if m.isDeployment() {
		return HaveValue(Equal(controlplanev1.DefaultAPIServerReplicas))
	}
	return BeNil()
}

// edit makes a control plane one of the mode.
func (m mode) edit(c *controlplanev1.KOKControlPlane) {
	c.Spec.KubeAPIServer.Workload = m.workload
	if m.onPodNetwork() {
		c.Spec.Hosting.NetworkMode, c.Spec.Hosting.Exposure.Type = controlplanev1.NetworkModePod, m.exposure
		c.Spec.Addons.Konnectivity.Mode = controlplanev1.DefaultKonnectivityMode(m.exposure)
	}
}
