// Package exampleaddon is an addon that no tenant has. Tests register it, and so show that a folder and a line in package
// addons are all that a new addon needs. CONTRIBUTING.md tells how.
package exampleaddon

import (
	_ "embed"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

//go:embed exampleaddon.yaml
var manifests []byte

// Name is what it is called.
const Name = "example-exporter"

// Register adds the addon to the list until the test ends. The API has no field for it, so that its mode is what is returned.
func Register(t testing.TB) *controlplanev1.AddonMode {
	t.Helper()
	mode := controlplanev1.AddonManaged
	before := addons.All
	t.Cleanup(func() { addons.All = before })
	addons.All = append(slices.Clone(before), addon.Addon{
		Name:       Name,
		Mode:       func(*controlplanev1.AddonsSpec) controlplanev1.AddonMode { return mode },
		ImageField: "addons.exampleExporter.image",
		Objects:    objects,
	})
	return &mode
}

func objects(in *addon.Input) ([]client.Object, error) {
	all := addon.Decode(manifests)
	container := &addon.Find[*appsv1.DaemonSet](all).Spec.Template.Spec.Containers[0]
	container.Image = fmt.Sprintf("%s/%s:%s", in.ImageRepository, Name, versions.ImageTag(in.Version))
	return all, nil
}
