package components_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
)

// Finding 7: a stored rendering is judged before it is applied; what we render ourselves must pass, whatever the spec.
func TestFinding7WhatIsRenderedIsNoForgery(t *testing.T) {
	inputs := map[string]func(*testing.T) *components.Input{}
	for variant, input := range variants {
		inputs[variant] = func(*testing.T) *components.Input { return input() }
	}
	for variant, input := range patched {
		inputs[variant] = input
	}
	for variant, input := range inputs {
		for _, component := range registry.Components {
			t.Run(component.Name+"/"+variant, func(t *testing.T) {
				in := input(t)
				in.RolloutAfter = "2030-01-02T03:04:05Z"
				objects, err := component.Rendered(in)
				if err != nil {
					t.Fatal(err)
				}
				// Those nodes are other ones than the default.
				limits := webhooks.DefaultLimits()
				limits.HostNodes = in.Spec.Hosting.NodeSelector
				stored := patches.Stored{Cluster: in.Cluster, Component: component.Name, Hosted: component.Patches, HostNetwork: !in.OnPodNetwork(), User: in.User, PortPool: in.Spec.Hosting.PortPool, Allow: limits.Allow}
				if stored.HostNetwork {
					stored.FirstPort = in.Ports.APIServer
				}
				for _, problem := range stored.Judge(objects) {
					t.Error(problem)
				}
				other := patches.Stored{Cluster: client.ObjectKey{Namespace: "team", Name: "green"}, Component: component.Name, Hosted: component.Patches, HostNetwork: true}
				if len(objects) > 0 && len(other.Judge(objects)) < len(objects) {
					t.Error("it passes as that of another tenant")
				}
			})
		}
	}
}

// What the scheduler sees of host ports, on which host nodes it sees them, and whom pods run as, is another tenant's where it is not
// the tenant's own.
func TestFinding7AnotherTenantsPortsAndUserAreForgeries(t *testing.T) {
	in := variants["default"]()
	in.Spec.Hosting.PortPool = "north"
	in.User = in.OwnUser()
	for _, component := range registry.Components {
		objects, err := component.Rendered(in)
		if err != nil {
			t.Fatal(err)
		}
		own := patches.Stored{Cluster: in.Cluster, Component: component.Name, Hosted: component.Patches, HostNetwork: true, FirstPort: in.Ports.APIServer, User: in.User, PortPool: "north"}
		ofPorts, ofUser, ofPool, ofNone := own, own, own, own
		ofPorts.FirstPort += controlplanev1.PortBlockSize
		ofUser.User++
		ofPool.PortPool, ofNone.PortPool = "south", ""
		if problems := own.Judge(objects); len(problems) > 0 {
			t.Errorf("%s of its own: %v", component.Name, problems)
		}
		for says, stored := range map[string]patches.Stored{
			"the block of the tenant": ofPorts, "are those of tenants": ofUser,
			`must be "south", the port pool of the tenant, and is "north"`: ofPool,
			`must be "", the port pool of the tenant, and is "north"`:      ofNone,
		} {
			if problems := stored.Judge(objects); len(problems) == 0 || !strings.Contains(problems[0], says) {
				t.Errorf("%s: %v, and not %q", component.Name, problems, says)
			}
		}
	}
}
