package cloudinit

import (
	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Input is all that a document depends on.
type Input struct {
	// Version is the machine's Kubernetes version, for example "v1.36.3".
	Version string
	// Spec is the spec of the KOKConfig.
	Spec bootstrapv1.KOKConfigSpec
	// Contents are the contents of files that Spec takes from Secrets.
	Contents map[bootstrapv1.SecretKey][]byte
	// Software is the content of the KOKSoftware that Spec names; nil when Spec names none.
	Software *Software
	// Cluster is what is known of the machine's cluster.
	Cluster Cluster
	// Token is the bootstrap token, in the form "abcdef.0123456789abcdef".
	Token string
}

// Software is the content of a KOKSoftware.
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
	// KonnectivityPort is the port at which konnectivity serves agents at those addresses; zero when it is not known.
	KonnectivityPort int
	// PodCIDRs may be empty, ServiceCIDRs must not.
	PodCIDRs, ServiceCIDRs []string
	// DNSDomain is the cluster's; empty stands for services.DefaultDNSDomain.
	DNSDomain string
}

// Paths on the machine. Those of kubelet are the same as with kubeadm, which people and programs know.
const (
	// LocalServer is where the machine's load balancer listens. kubelet reaches the API only there.
	LocalServer = "127.0.0.1:6443"

	// CAFile is the certificate of the cluster's certificate authority.
	CAFile = onworker.CAFile
	// BootstrapKubeconfig is the kubeconfig with which kubelet requests its first certificate.
	BootstrapKubeconfig = onworker.BootstrapKubeconfig
	// KubeletConfiguration is kubelet's configuration file.
	KubeletConfiguration = onworker.KubeletConfiguration
	registryDir          = "/etc/containerd/certs.d/"
)
