// Package kubecontrollermanager describes and renders kube-controller-manager.
package kubecontrollermanager

import (
	_ "embed"
	"strconv"
	"strings"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

//go:embed deployment.yaml
var deployment []byte

// HTTPS is where it serves its metrics and health.
var HTTPS = ports.Port{Name: "https", Offset: 7, Usual: 10257}

// Component describes kube-controller-manager.
var Component = components.Replicated{
	Name:  names.KubeControllerManager,
	Field: "kubeControllerManager",
	Spec: func(spec *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ReplicatedComponentSpec {
		return &spec.KubeControllerManager
	},
	Port:      HTTPS,
	Asset:     deployment,
	Args:      args,
	Arguments: rules,
	ClusterCA: []components.KeyArgument{
		{Name: "cluster-signing-cert-file", Files: components.ClusterCA.Used(pki.CACert)},
		{Name: "cluster-signing-key-file", Files: components.ClusterCA.Used(pki.CAKey)},
		{Name: "root-ca-file", Files: components.ClusterCA.Trusted(pki.CACert)},
	},
	Keys: components.HeldKeys{{Kind: components.ServiceAccountKey, Uses: true, Arguments: []components.KeyArgument{
		{Name: "service-account-private-key-file", Files: components.ServiceAccountKey.Used(pki.ServiceAccountKey)},
	}}},
	Network: func(network components.Network) components.Network {
		return components.Network{PodCIDRs: network.PodCIDRs, ServiceCIDRs: network.ServiceCIDRs}
	},
}.Component()

func args(in *components.Input) map[string]string {
	args := map[string]string{
		"allocate-node-cidrs":      strconv.FormatBool(len(in.Network.PodCIDRs) > 0),
		"cluster-name":             in.Cluster.Name,
		"service-cluster-ip-range": strings.Join(in.Network.ServiceCIDRs, ","),
	}
	if len(in.Network.PodCIDRs) > 0 {
		args["cluster-cidr"] = strings.Join(in.Network.PodCIDRs, ",")
	}
	return args
}
