package providers

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are clusterctl's flags for the kinds of providers.
var kinds = []string{"bootstrap", "control-plane", "infrastructure"}

// Provider is one provider, such as those of this repository.
type Provider struct {
	// Label is its name in clusterctl's inventory, and of its folder in the repository.
	Label string
	// Manager is its Deployment.
	Manager client.ObjectKey
	// Program is the manager's program, and Image the image that its Deployment asks for.
	Program, Image string
	// Beside are the programs of other images, by the images that the manager asks for.
	Beside map[string]string

	// kind and name are clusterctl's, components is the file with all objects.
	kind, name, components string
}

// Images are the programs of all images of the provider. A release that is older than one of them has not built it.
func (p Provider) Images() map[string]string {
	images := map[string]string{p.Image: p.Program}
	for image, program := range p.Beside {
		if _, err := os.Stat(program); err == nil {
			images[image] = program
		}
	}
	return images
}

// Own are the providers of this repository: their programs lie in a folder, and their images are in a
// registry under a tag.
func Own(programs, registry, tag string) []Provider {
	return []Provider{
		{
			Label: "bootstrap-kok", kind: "bootstrap", name: "kok", components: "bootstrap-components.yaml",
			Manager: client.ObjectKey{Namespace: "kok-bootstrap-system", Name: "kok-bootstrap-controller-manager"},
			Program: filepath.Join(programs, "bootstrap-manager"), Image: registry + "/kok-bootstrap-controller:" + tag,
		},
		{
			Label: "infrastructure-idc", kind: "infrastructure", name: "idc", components: "infrastructure-components.yaml",
			Manager: client.ObjectKey{Namespace: "kok-infrastructure-system", Name: "kok-infrastructure-controller-manager"},
			Program: filepath.Join(programs, "infrastructure-manager"), Image: registry + "/kok-infrastructure-controller:" + tag,
		},
		{
			Label: "control-plane-kok", kind: "control-plane", name: "kok", components: "control-plane-components.yaml",
			Manager: client.ObjectKey{Namespace: "kok-control-plane-system", Name: "kok-control-plane-controller-manager"},
			Program: filepath.Join(programs, "manager"), Image: registry + "/kok-controlplane-controller:" + tag,
			Beside: map[string]string{registry + "/kok-etcd-agent:" + tag: filepath.Join(programs, "kok-etcd-agent")},
		},
	}
}

// OnWorkers are the programs of images that workers of tenants pull, by these images.
func OnWorkers(programs, registry, tag string) map[string]string {
	return map[string]string{registry + "/kok-node-keys:" + tag: filepath.Join(programs, "kok-node-keys")}
}

// Kubeadm is Cluster API's own bootstrap provider, of the same version as its core: its program, and the
// image that its Deployment asks for.
func Kubeadm(program, image string) Provider {
	return Provider{
		Label: "bootstrap-kubeadm", kind: "bootstrap", name: "kubeadm", components: "bootstrap-components.yaml",
		Manager: client.ObjectKey{Namespace: "capi-kubeadm-bootstrap-system", Name: "capi-kubeadm-bootstrap-controller-manager"},
		Program: program, Image: image,
	}
}
