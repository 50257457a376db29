package cloudinit

import (
	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// Input is all that a document depends on.
type Input struct {
	// Version is the machine's Kubernetes version, for example "v1.36.3".
	Version string
	// Spec is the spec of the KOKConfig.
	Spec bootstrapv1.KOKConfigSpec
	// Contents are the contents of files that Spec takes from Secrets.
	Contents map[bootstrapv1.SecretKey][]byte
	// Software is what the KOKSoftware describes that Spec names; nil when Spec names none.
	Software *Software
	// Cluster is what is known of the machine's cluster.
	Cluster Cluster
	// Token is the bootstrap token, in the form "abcdef.0123456789abcdef".
	Token string
}

// Software is what a KOKSoftware describes.
type Software struct {
	// Installers are where the program kok-software comes from.
	Installers []bootstrapv1.SoftwareInstaller
	// Document is what the program reads.
	Document software.Document
}

// Cluster is what a machine must know of the cluster that it joins.
type Cluster struct {
	// CABundle is the certificate of the cluster's certificate authority, as PEM.
	CABundle []byte
	// APIServers are the addresses of the API servers, each as host:port.
	APIServers []string
	// KonnectivityPort is where konnectivity serves agents at those addresses; zero when that is not known
	// of the cluster.
	KonnectivityPort int
	// PodCIDRs may be empty, ServiceCIDRs must not.
	PodCIDRs, ServiceCIDRs []string
	// DNSDomain is services.DefaultDNSDomain if empty.
	DNSDomain string
}

// Where things are on the machine. The paths of kubelet are those of kubeadm, which people and
// programs know.
const (
	// LocalServer is where the machine's load balancer listens: kubelet reaches the API there alone.
	LocalServer = "127.0.0.1:6443"

	// CAFile is the certificate of the cluster's certificate authority.
	CAFile = "/etc/kubernetes/pki/ca.crt"
	// BootstrapKubeconfig is what kubelet asks for its first certificate with.
	BootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
	// KubeletConfiguration is kubelet's configuration file.
	KubeletConfiguration = "/var/lib/kubelet/config.yaml"
	registryDir          = "/etc/containerd/certs.d/"
)
