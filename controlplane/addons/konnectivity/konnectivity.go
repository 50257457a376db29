// Package konnectivity renders what konnectivity has in a tenant: its agents, by which API servers reach
// nodes, pods and Services, and the rights of agents and servers. The servers are beside each
// kube-apiserver, in package kubeapiserver. Agents reach them by the load balancer of their worker, in
// bootstrap/apiserverlb, as bootstrap/cloudinit configures it.
package konnectivity

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net/url"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
)

// ServerUser is who konnectivity's servers are in the tenant.
const ServerUser = "system:konnectivity-server"

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	// configHash is on the pods, which read their kubeconfig once, when they start.
	configHash = "kok.cluster.x-k8s.io/config-hash"
)

//go:embed konnectivity.yaml
var manifests []byte

// Addon is konnectivity.
var Addon = addon.Addon{
	Name:    "konnectivity",
	Mode:    func(spec *controlplanev1.AddonsSpec) controlplanev1.AddonMode { return spec.Konnectivity.Mode },
	Objects: objects,
}

func objects(in *addon.Input) ([]client.Object, error) {
	kubeconfig, err := clientcmd.Write(access(in.Server))
	if err != nil {
		return nil, fmt.Errorf("marshal the kubeconfig: %w", err)
	}
	all := addon.Decode(manifests)
	addon.Find[*corev1.ConfigMap](all).Data = map[string]string{"kubeconfig": string(kubeconfig)}

	template := &addon.Find[*appsv1.DaemonSet](all).Spec.Template
	hash := sha256.Sum256(kubeconfig)
	template.Annotations = map[string]string{configHash: hex.EncodeToString(hash[:8])}
	container := &template.Spec.Containers[0]
	container.Image = cmp.Or(in.Spec.Konnectivity.AgentImage,
		fmt.Sprintf("%s/kas-network-proxy/proxy-agent:%s", in.ImageRepository, in.KonnectivityTag))
	container.Args = append(container.Args, fmt.Sprintf("--proxy-server-port=%d", controlplanev1.KonnectivityLocalPort))
	return all, nil
}

// access is by the node's own load balancer, and so works before the Service of the API does.
func access(server string) clientcmdapi.Config {
	const name = "konnectivity-agent"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: (&url.URL{Scheme: "https", Host: server}).String(), CertificateAuthority: serviceAccount + "/ca.crt",
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {TokenFile: serviceAccount + "/token"}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}
