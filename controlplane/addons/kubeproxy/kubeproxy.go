// Package kubeproxy renders kube-proxy, which makes a tenant's Services reachable on its workers.
package kubeproxy

import (
	_ "embed"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const directory = "/var/lib/kube-proxy"

//go:embed kubeproxy.yaml
var manifests []byte

// Addon is kube-proxy.
var Addon = addon.Addon{
	Name:       "kube-proxy",
	Mode:       func(spec *controlplanev1.AddonsSpec) controlplanev1.AddonMode { return spec.KubeProxy.Mode },
	ImageField: "addons.kubeProxy.image",
	Objects:    objects,

	ReadOnce: []string{"config.yaml", "kubeconfig"},
}

func objects(in *addon.Input) ([]client.Object, error) {
	config, err := configuration(in)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := in.Kubeconfig("kube-proxy")
	if err != nil {
		return nil, err
	}
	all := addon.Decode(manifests)
	addon.Find[*corev1.ConfigMap](all).Data = map[string]string{"config.yaml": config, "kubeconfig": kubeconfig}

	template := &addon.Find[*appsv1.DaemonSet](all).Spec.Template
	image := in.Spec.KubeProxy.Image
	if image == "" {
		image = fmt.Sprintf("%s/kube-proxy:%s", in.ImageRepository, versions.ImageTag(in.Version))
	}
	template.Spec.Containers[0].Image = image
	return all, nil
}

// configuration is kube-proxy's KubeProxyConfiguration
// (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1). The rules of nftables
// are the mode that Kubernetes recommends since v1.33; it needs Linux 5.13.
func configuration(in *addon.Input) (string, error) {
	config := map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "nftables",
		"clientConnection": map[string]any{"kubeconfig": directory + "/kubeconfig"},
		// Both are without authentication: they are for the node alone.
		"metricsBindAddress": "127.0.0.1:10249",
		"healthzBindAddress": "127.0.0.1:10256",
	}
	if in.Spec.KubeProxy.Conntrack == controlplanev1.AddonNone {
		config["conntrack"] = map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
	}
	if len(in.PodCIDRs) > 0 {
		config["clusterCIDR"] = strings.Join(in.PodCIDRs, ",")
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("marshal the configuration: %w", err)
	}
	return string(out), nil
}
