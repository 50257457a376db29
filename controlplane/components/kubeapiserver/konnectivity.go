package kubeapiserver

import (
	"cmp"
	_ "embed"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Names of konnectivity's files in the component's Secret, as the asset's arguments name them.
const (
	KonnectivityServerCert     = "konnectivity-server"
	KonnectivityClientCert     = "konnectivity-client"
	KonnectivityKubeconfigFile = "konnectivity.kubeconfig"
)

const egressSelectorFile = "egress-selector.yaml"

var (
	//go:embed konnectivity.yaml
	konnectivity []byte
	//go:embed egress-selector.yaml
	egressSelector string
)

// addKonnectivity puts konnectivity's server beside kube-apiserver. The two meet at a Unix socket, which
// only pods of their user can dial; agents come to a port of the tenant's block.
func addKonnectivity(pod *corev1.PodSpec, in *components.Input) {
	addition := components.Decode[corev1.PodSpec](konnectivity)
	server := &addition.InitContainers[0]
	server.Image = cmp.Or(in.Spec.Addons.Konnectivity.ServerImage,
		fmt.Sprintf("%s/kas-network-proxy/proxy-server:%s", in.Spec.ImageRepository, in.KonnectivityImageTag))
	server.Args = components.Args(server.Args, map[string]string{
		"admin-port":          strconv.Itoa(int(in.Ports.KonnectivityAdmin)),
		"agent-bind-address":  bindAddress(in),
		"agent-port":          strconv.Itoa(int(in.Ports.KonnectivityAgent)),
		"health-bind-address": in.ProbeAddress(bindAddress(in)),
		"health-port":         strconv.Itoa(int(in.Ports.KonnectivityHealth)),
	}, nil)
	if in.OnPodNetwork() {
		// Two of them may be on one node.
		server.Env[0].ValueFrom.FieldRef.FieldPath = "metadata.name"
	}
	components.SetPort(server, "agents", in.Ports.KonnectivityAgent)
	components.SetPort(server, "admin", in.Ports.KonnectivityAdmin)
	components.SetPort(server, "health", in.Ports.KonnectivityHealth)
	components.Probe(server.LivenessProbe, in.Ports.KonnectivityHealth)

	pki := addition.Volumes[1].Projected.Sources
	pki[0].Secret.Name = names.KeyMaterial(in.Cluster.Name)
	pki[1].Secret.Name = names.Certs(in.Cluster.Name, names.KubeAPIServer)

	pod.InitContainers = append(pod.InitContainers, *server)
	pod.Volumes = append(pod.Volumes, addition.Volumes...)
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, server.VolumeMounts[0])
}
