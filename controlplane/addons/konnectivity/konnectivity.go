// Package konnectivity renders konnectivity's objects in a tenant: the agents, and the rights of agents
// and servers. API servers reach nodes, pods and Services through the agents. A server runs beside each
// kube-apiserver; package kubeapiserver renders it. Agents reach them by the load balancer of their
// worker, in bootstrap/apiserverlb, as bootstrap/cloudinit configures it.
package konnectivity

import (
	"cmp"
	_ "embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
)

// ServerUser is the user name of konnectivity's servers in the tenant.
const ServerUser = "system:konnectivity-server"

//go:embed konnectivity.yaml
var manifests []byte

// Addon is konnectivity.
var Addon = addon.Addon{
	Name:       "konnectivity",
	Mode:       func(spec *controlplanev1.AddonsSpec) controlplanev1.AddonMode { return spec.Konnectivity.Mode },
	ImageField: "addons.konnectivity.agentImage",
	Objects:    objects,

	ReadOnce: []string{"kubeconfig"},
}

func objects(in *addon.Input) ([]client.Object, error) {
	kubeconfig, err := in.Kubeconfig("konnectivity-agent")
	if err != nil {
		return nil, err
	}
	all := addon.Decode(manifests)
	addon.Find[*corev1.ConfigMap](all).Data = map[string]string{"kubeconfig": kubeconfig}

	container := &addon.Find[*appsv1.DaemonSet](all).Spec.Template.Spec.Containers[0]
	container.Image = cmp.Or(in.Spec.Konnectivity.AgentImage,
		fmt.Sprintf("%s/kas-network-proxy/proxy-agent:%s", in.ImageRepository, in.KonnectivityTag))
	container.Args = append(container.Args, fmt.Sprintf("--proxy-server-port=%d", controlplanev1.KonnectivityLocalPort))
	return all, nil
}
