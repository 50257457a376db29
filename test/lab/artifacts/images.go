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
	certManager, provisioner string
}

// images lists what every host has, under the names that the public registries give them and with upstream's users, so
// that defaults and upstream's manifests need no change.
func (b bins) images(v Versions) []Image {
	list := []Image{ProgramImage(PauseImage, filepath.Join(b.pause, "pause"))}
	for _, version := range v.Tenants {
		for _, name := range tenantPrograms {
			list = append(list, ProgramImage("registry.k8s.io/"+name+":"+version, filepath.Join(b.kubernetes[version], name)))
		}
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
		ProgramImage(b.provisionerImage(), filepath.Join(b.provisioner, "local-provisioner")),
		// Cluster API's components name the program by this path.
		Image{
			Name:  "registry.k8s.io/cluster-api/cluster-api-controller:" + v.ClusterAPI,
			User:  "65532",
			Files: []File{{Path: "/manager", Source: filepath.Join(b.clusterAPI, "cluster-api-controller")}},
		},
	)
}

// tenantPrograms are the components of a tenant's control plane that come from Kubernetes.
var tenantPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// hostPrograms are those of the host cluster.
var hostPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "kube-proxy"}
