// Package kubecontrollermanager renders kube-controller-manager.
package kubecontrollermanager

import (
	_ "embed"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

//go:embed deployment.yaml
var deployment []byte

// Component describes kube-controller-manager.
var Component = components.Component{Name: names.KubeControllerManager, Ignore: ignore, Objects: objects}

func ignore(in *components.Input) {
	in.Addresses, in.Network.DNSDomain, in.Exposure = nil, "", components.Exposure{}
	in.Spec = controlplanev1.KOKControlPlaneSpec{
		Hosting:               in.Spec.Hosting,
		ImageRepository:       in.Spec.ImageRepository,
		ImagePullSecret:       in.Spec.ImagePullSecret,
		KubeControllerManager: in.Spec.KubeControllerManager,
	}
}

func objects(in *components.Input) ([]client.Object, error) {
	args := map[string]string{
		"allocate-node-cidrs":      strconv.FormatBool(len(in.Network.PodCIDRs) > 0),
		"cluster-name":             in.Cluster.Name,
		"secure-port":              strconv.Itoa(int(in.Ports.ControllerManager)),
		"service-cluster-ip-range": strings.Join(in.Network.ServiceCIDRs, ","),
	}
	if len(in.Network.PodCIDRs) > 0 {
		args["cluster-cidr"] = strings.Join(in.Network.PodCIDRs, ",")
	}
	return components.Replicated(deployment, in, names.KubeControllerManager,
		in.Spec.KubeControllerManager, in.Ports.ControllerManager, args), nil
}
