package software

import (
	"fmt"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// Versions are those of the components, each with a leading v.
type Versions struct {
	// Kubernetes is the version of kubelet.
	Kubernetes                   string
	Containerd, Runc, CNIPlugins string
	// Release is the release of this project from which kok-software and kok-apiserver-lb are taken.
	Release string
}

// Tested are the versions of components that this release is tested with.
var Tested = Versions{Containerd: "v2.4.2", Runc: "v1.5.2", CNIPlugins: "v1.9.1"}

// Servers of upstreams.
const (
	kubernetesServer = "https://dl.k8s.io/"
	projectsServer   = "https://github.com/"
)

// programs is where single programs go. systemd finds them there.
const programs = "/usr/local/bin/"

// published is a file as its project publishes it.
type published struct {
	// component that the file is of.
	component string
	// url of the file, and of the file with its SHA-256.
	url, sums string
	// unpack says which of its files go where; nothing for the installer.
	unpack []bootstrapv1.SoftwareUnpack
}

// Names of components.
const (
	installer  = "kok-software"
	balancer   = "kok-apiserver-lb"
	runc       = "runc"
	plugins    = "cni-plugins"
	containerd = "containerd"
	kubelet    = "kubelet"
)

// files are the files that upstreams publish for these versions and an architecture.
func (v Versions) files(architecture bootstrapv1.Architecture) []published {
	project := func(repository, version string) string {
		return projectsServer + repository + "/releases/download/" + version + "/"
	}
	program := func(name string) []bootstrapv1.SoftwareUnpack {
		return []bootstrapv1.SoftwareUnpack{{To: programs + name}}
	}
	own := project("kube-on-kube/cluster-api-provider-kok", v.Release)
	oci := project("opencontainers/runc", v.Runc)
	cni := project("containernetworking/plugins", v.CNIPlugins) + fmt.Sprintf("cni-plugins-linux-%s-%s.tgz", architecture, v.CNIPlugins)
	runtime := project("containerd/containerd", v.Containerd) + fmt.Sprintf("containerd-%s-linux-%s.tar.gz", strings.TrimPrefix(v.Containerd, "v"), architecture)
	node := fmt.Sprintf("%srelease/%s/bin/linux/%s/kubelet", kubernetesServer, v.Kubernetes, architecture)
	return []published{
		{component: installer, url: fmt.Sprintf("%s%s-linux-%s", own, installer, architecture), sums: own + "SHA256SUMS"},
		{component: runc, url: fmt.Sprintf("%srunc.%s", oci, architecture), sums: oci + "runc.sha256sum", unpack: program(runc)},
		{component: plugins, url: cni, sums: cni + ".sha256", unpack: []bootstrapv1.SoftwareUnpack{{From: "./", To: "/opt/cni/bin/"}}},
		{component: containerd, url: runtime, sums: runtime + ".sha256sum", unpack: []bootstrapv1.SoftwareUnpack{{From: "bin/", To: programs}}},
		{component: balancer, url: fmt.Sprintf("%s%s-linux-%s", own, balancer, architecture), sums: own + "SHA256SUMS", unpack: program(balancer)},
		{component: kubelet, url: node, sums: node + ".sha256", unpack: program(kubelet)},
	}
}
