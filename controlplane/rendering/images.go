package rendering

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Images are the references of all images that the pods of control planes of a version run, and those of their addons, with
// konnectivity, but for those of the providers themselves. They come from an image repository, or from registry.k8s.io if it is empty.
func Images(version, repository string, table *versions.Table) ([]string, error) {
	if err := table.Validate(version); err != nil {
		return nil, err
	}
	spec := controlplanev1.KOKControlPlaneSpec{Version: version, ImageRepository: repository}
	spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
	in, tenant, err := Sample(spec, table)
	if err != nil {
		return nil, err
	}
	// The providers name it.
	in.EtcdAgentImage = ""
	var all []client.Object
	for _, component := range registry.Components {
		objects, err := ObjectsOf(component, in)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	for _, addon := range addons.All {
		objects, err := addons.Render(addon, tenant)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	var images []string
	for _, object := range all {
		template := patches.PodTemplate(object)
		if template == nil {
			continue
		}
		for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
			images = append(images, container.Image)
		}
	}
	slices.Sort(images)
	return slices.Compact(images), nil
}
