// Package exampleproxy is a component that no control plane has. Tests register it, and so show that its code is a folder and a
// line in package registry. A component of the product also needs a field of the API, tests and documents: see CONTRIBUTING.md.
package exampleproxy

import (
	_ "embed"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

//go:embed deployment.yaml
var deployment []byte

// Name is what it is called.
const Name = "example-proxy"

// HTTPS is where it serves: the first place in the block that no component has.
var HTTPS = ports.Port{Name: "https", Offset: 13, Usual: 10299}

// component describes it. The API has no field for it, so that its settings are those of Register.
func component(settings *controlplanev1.ReplicatedComponentSpec) components.Component {
	return components.Replicated{
		Name:      Name,
		Field:     "exampleProxy",
		Spec:      func(*controlplanev1.KOKControlPlaneSpec) *controlplanev1.ReplicatedComponentSpec { return settings },
		Port:      HTTPS,
		Asset:     deployment,
		Arguments: arguments.Rules{Owned: arguments.Client},
	}.Component()
}

// Register adds the component to the list until the test ends, and returns it with what users set of it.
func Register(t testing.TB) (components.Component, *controlplanev1.ReplicatedComponentSpec) {
	t.Helper()
	settings := &controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To[int32](2)}
	before := registry.Components
	t.Cleanup(func() { registry.Components = before })
	added := component(settings)
	registry.Components = append(slices.Clone(before), added)
	return added, settings
}
