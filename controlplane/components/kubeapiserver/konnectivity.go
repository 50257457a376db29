package kubeapiserver

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// Names of konnectivity's files in the component's Secret, as the asset's arguments name them.
const (
	KonnectivityServerCert     = "konnectivity-server"
	KonnectivityClientCert     = "konnectivity-client"
	KonnectivityKubeconfigFile = "konnectivity.kubeconfig"
)

const (
	egressSelectorFile = "egress-selector.yaml"
	// konnectivityServer is the name of the container.
	konnectivityServer = "konnectivity-server"
)

// EgressAnnotation names what kube-apiserver sends through the tenant's workers, by the configuration that it read when it
// started: a newer one makes new pods.
const EgressAnnotation = "kok.cluster.x-k8s.io/egress-through-workers"

var (
	//go:embed konnectivity.yaml
	konnectivityPod []byte
	//go:embed egress-selector.yaml
	egressSelector string
)

// egressSelections are the kinds of connections that the egress selector configuration leads through the tenant's workers.
func egressSelections() string {
	var names []string
	for _, selection := range components.Decode[apiserverv1beta1.EgressSelectorConfiguration]([]byte(egressSelector)).EgressSelections {
		names = append(names, selection.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// HasKonnectivity reports whether an API server has a server of konnectivity beside it.
func HasKonnectivity(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == konnectivityServer })
}

// ConfinesEgress reports whether an API server dials no address by itself that a tenant's administrators can choose.
func ConfinesEgress(pod *corev1.Pod) bool {
	return pod.Annotations[EgressAnnotation] == egressSelections()
}

// addKonnectivity puts konnectivity's server beside kube-apiserver. The two meet at a Unix socket, which
// only pods of their user can dial; agents come to a port of the tenant's block.
func addKonnectivity(template *corev1.PodTemplateSpec, in *components.Input) {
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, EgressAnnotation, egressSelections())
	pod := &template.Spec
	addition := components.Decode[corev1.PodSpec](konnectivityPod)
	server := &addition.InitContainers[0]
	agents, admin, health := in.Ports.Number(KonnectivityAgent), in.Ports.Number(KonnectivityAdmin), in.Ports.Number(KonnectivityHealth)
	server.Image = cmp.Or(in.Spec.Addons.Konnectivity.ServerImage,
		fmt.Sprintf("%s/kas-network-proxy/proxy-server:%s", in.Spec.ImageRepository, in.KonnectivityImageTag))
	server.Args = components.Args(server.Args, map[string]string{
		"admin-port":          strconv.Itoa(int(admin)),
		"agent-bind-address":  bindAddress(in),
		"agent-port":          strconv.Itoa(int(agents)),
		"health-bind-address": in.ProbeAddress(bindAddress(in)),
		"health-port":         strconv.Itoa(int(health)),
	}, nil)
	if in.OnPodNetwork() {
		// Two of them may be on one node.
		server.Env[0].ValueFrom.FieldRef.FieldPath = "metadata.name"
	}
	components.SetPort(server, KonnectivityAgent.Name, agents)
	components.SetPort(server, KonnectivityAdmin.Name, admin)
	components.SetPort(server, KonnectivityHealth.Name, health)
	components.Probe(server.LivenessProbe, health)

	sources := addition.Volumes[1].Projected.Sources
	sources[0].Secret.Name = names.KeyMaterial(in.Cluster.Name)
	sources[1].Secret.Name = names.Certs(in.Cluster.Name, names.KubeAPIServer)
	for _, source := range sources {
		mountPhase(source.Secret.Items, in.ClusterCAs)
	}

	pod.InitContainers = append(pod.InitContainers, *server)
	pod.Volumes = append(pod.Volumes, addition.Volumes...)
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, server.VolumeMounts[0])
}

// mountPhase has konnectivity's server find the files of the phase under the paths that it always has.
func mountPhase(items []corev1.KeyToPath, cas components.KeyFiles) {
	for i := range items {
		name, ending := strings.TrimSuffix(items[i].Key, path.Ext(items[i].Key)), path.Ext(items[i].Key)
		switch name {
		case KonnectivityServerCert:
			items[i].Key = certificates.LeafName(name, cas.Shown) + ending
		case KonnectivityClientCert:
			items[i].Key = certificates.LeafName(name, cas.Used) + ending
		default:
			if items[i].Key == pki.CACert {
				items[i].Key = pki.TrustedFile(pki.CACert, cas.Trusted...)
			}
		}
	}
}
