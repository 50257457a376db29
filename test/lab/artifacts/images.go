package artifacts

import (
	"path/filepath"
	"strings"
)

// ManagerImage is the name of the control plane provider's image as its manifests ask for it.
const ManagerImage = "ghcr.io/kube-on-kube/kok-controlplane-controller:dev"

// PauseImage is the pod sandbox's image; the hosts' containerd is configured with it.
const PauseImage = "registry.k8s.io/pause:3.10"

// provisionerImage is named after the build: hosts that have an older one get the new one under its own name.
func (b bins) provisionerImage() string {
	_, tag, _ := strings.Cut(filepath.Base(b.provisioner), "local-provisioner-")
	return "ghcr.io/kube-on-kube/lab-local-provisioner:" + tag
}

// bins are the folders of built programs.
type bins struct {
	kubernetes map[string]string
	etcd, pause, clusterAPI, kustomize,
	certManager, provisioner,
	coreDNS, flannel, flannelPlugin, konnectivity string
	// debian is the folder of the Debian system alone.
	debian string
}

// Debian's programs that images bring along: kube-proxy and flannel write the packet filter with nft, and flannel's
// manifests copy files.
const (
	filterProgram = "/usr/sbin/nft"
	protocolNames = "/etc/protocols"
	copyProgram   = "/usr/bin/cp"
	// flanneld wants to see both, also when it does not use them: to remove rules of its other mode.
	multiProgram = "/usr/sbin/xtables-nft-multi"
)

var multiNames = []string{"/usr/sbin/iptables", "/usr/sbin/ip6tables"}

// tenantImages are those that pods of tenants ask for.
func (b bins) tenantImages(v Versions) ([]Image, error) {
	filter, err := packetFilter(b.debian)
	if err != nil {
		return nil, err
	}
	flannel, err := packetFilter(b.debian, copyProgram, multiProgram)
	if err != nil {
		return nil, err
	}
	for _, name := range multiNames {
		flannel = append(flannel, File{Path: name, Source: filepath.Join(b.debian, multiProgram)})
	}
	onlyCopy, err := closure(b.debian, copyProgram)
	if err != nil {
		return nil, err
	}
	var list []Image
	for _, version := range v.Tenants {
		list = append(list, proxyImage(version, b.kubernetes[version], filter))
	}
	one := func(name, path, program string, more ...File) Image {
		return Image{Name: name, Files: append([]File{{Path: path, Source: program}}, more...)}
	}
	return append(list,
		one("ghcr.io/flannel-io/flannel:"+v.Flannel, "/opt/bin/flanneld", filepath.Join(b.flannel, "flanneld"), flannel...),
		one("ghcr.io/flannel-io/flannel-cni-plugin:"+v.FlannelPlugin, "/flannel", filepath.Join(b.flannelPlugin, "flannel"), onlyCopy...),
		one("registry.k8s.io/coredns/coredns:"+v.CoreDNS, "/coredns", filepath.Join(b.coreDNS, "coredns")),
		one("registry.k8s.io/kas-network-proxy/proxy-agent:"+v.Konnectivity, "/proxy-agent", filepath.Join(b.konnectivity, "proxy-agent")),
	), nil
}

// proxyImage is kube-proxy's, controlPlaneImages those of a control plane, of one version, whose programs are in a
// folder. filter are the files of the packet filter's program.
func proxyImage(version, programs string, filter []File) Image {
	image := ProgramImage("registry.k8s.io/kube-proxy:"+version, filepath.Join(programs, "kube-proxy"))
	image.Files = append(image.Files, filter...)
	return image
}

func controlPlaneImages(version, programs string) (list []Image) {
	for _, name := range tenantPrograms {
		list = append(list, ProgramImage("registry.k8s.io/"+name+":"+version, filepath.Join(programs, name)))
	}
	return list
}

func (b bins) pauseImage() Image { return ProgramImage(PauseImage, filepath.Join(b.pause, "pause")) }

// images lists what every host has, under the names that the public registries give them and with upstream's users, so
// that defaults and upstream's manifests need no change.
func (b bins) images(v Versions) []Image {
	list := []Image{b.pauseImage()}
	for _, version := range v.Tenants {
		list = append(list, controlPlaneImages(version, b.kubernetes[version])...)
	}
	for _, name := range certManagerPrograms {
		name = "cert-manager-" + name
		image := ProgramImage("quay.io/jetstack/"+name+":"+v.CertManager, filepath.Join(b.certManager, name))
		image.User = "1000"
		list = append(list, image)
	}
	return append(list,
		ProgramImage("registry.k8s.io/etcd:"+v.EtcdImageTag(),
			filepath.Join(b.etcd, "etcd"), filepath.Join(b.etcd, "etcdctl"), filepath.Join(b.etcd, "etcdutl")),
		// Pods name the program by this path, as upstream's manifests do.
		Image{
			Name:  "registry.k8s.io/kas-network-proxy/proxy-server:" + v.Konnectivity,
			User:  "65532",
			Files: []File{{Path: "/proxy-server", Source: filepath.Join(b.konnectivity, "proxy-server")}},
		},
		ProgramImage(b.provisionerImage(), filepath.Join(b.provisioner, "local-provisioner")),
		clusterAPIImage(clusterAPIProgram, v.ClusterAPI, filepath.Join(b.clusterAPI, clusterAPIProgram)),
	)
}

// tenantPrograms are the components of a tenant's control plane that come from Kubernetes.
var tenantPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// hostPrograms are those of the host cluster; tenants and their workers run some of them.
var hostPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "kube-proxy"}
