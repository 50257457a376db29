package components_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
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
		for _, component := range all {
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
				stored := patches.Stored{Cluster: in.Cluster, Component: component.Name, HostNetwork: !in.OnPodNetwork(), Allow: limits.Allow}
				for _, problem := range stored.Judge(objects) {
					t.Error(problem)
				}
				other := patches.Stored{Cluster: client.ObjectKey{Namespace: "team", Name: "green"}, Component: component.Name, HostNetwork: true}
				if len(objects) > 0 && len(other.Judge(objects)) < len(objects) {
					t.Error("it passes as that of another tenant")
				}
			})
		}
	}
}
