// Package onworker names the files and units of a worker that more than one provider knows. The bootstrap provider puts
// them there. The infrastructure provider looks for them, and removes them when the host leaves its cluster.
package onworker

// Files of kubelet are where kubeadm has them: people and programs know these paths.
const (
	// SentinelFile is there once the bootstrap succeeded (contract for BootstrapConfig, "Sentinel file").
	SentinelFile = SentinelDir + "bootstrap-success.complete"
	SentinelDir  = "/run/cluster-api/"
	// Kubeconfig is what kubelet writes once it has a certificate.
	Kubeconfig = "/etc/kubernetes/kubelet.conf"
	// BootstrapKubeconfig is the kubeconfig with which kubelet requests its first certificate.
	BootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
	// KubeletConfiguration is kubelet's configuration file.
	KubeletConfiguration = "/var/lib/kubelet/config.yaml"
	// CAFile has the certificates of the CAs of the cluster.
	CAFile = "/etc/kubernetes/pki/ca.crt"
	// KubeletEnvironment may set KUBELET_EXTRA_ARGS: an infrastructure provider or an image puts there
	// what is true of one machine only, such as --provider-id.
	KubeletEnvironment = "/etc/default/kubelet"
	// ContainerdSocket is where kubelet and crictl reach containerd.
	ContainerdSocket = "unix:///run/containerd/containerd.sock"
)

const (
	// Dir is ours alone.
	Dir = "/etc/kok/"
	// StepDir has the steps of the bootstrap.
	StepDir = Dir + "bootstrap/"
	// DownloadsFile lists, in JSON, the files that steps of the bootstrap put on the worker: no entry of the bootstrap
	// data names them. Who cleans up a worker removes them.
	DownloadsFile = StepDir + "downloads.json"
	// ProxyFile has the proxies, with their passwords, that a KOKConfig lets containerd use.
	ProxyFile = Dir + "proxy.env"

	// LoadBalancerDir has the configuration of the worker's load balancer.
	LoadBalancerDir = "/etc/kok-apiserver-lb/"
	// LoadBalancerState is its state: systemd keeps that of a dynamic user there, and links to it.
	LoadBalancerState = "/var/lib/private/kok-apiserver-lb/"
	// NodeKeysDir has what kok-node-keys did, until the worker boots.
	NodeKeysDir = "/run/kok-node-keys/"
	// NodeKeysOrder says how far kok-node-keys brought this node. It goes where kubelet's certificates go: whoever resets a node removes both.
	NodeKeysOrder = "/var/lib/kubelet/kok-node-keys-order"
	// LoadBalancerStateLink is systemd's link to it.
	LoadBalancerStateLink = "/var/lib/kok-apiserver-lb/"
)

const (
	// UnitDir is where the files of units are.
	UnitDir = "/etc/systemd/system/"

	// ContainerdUnit is the unit of containerd.
	ContainerdUnit = "containerd.service"
	// KubeletUnit is the unit of kubelet.
	KubeletUnit = "kubelet.service"
	// BootstrapUnit runs the steps of the bootstrap. Its journal says what failed.
	BootstrapUnit = "kok-bootstrap.service"
	// LoadBalancerUnit is the worker's load balancer.
	LoadBalancerUnit = "kok-apiserver-lb.service"
)
