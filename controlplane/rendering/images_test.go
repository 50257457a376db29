package rendering

import (
	"slices"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

func TestImages(t *testing.T) {
	images, err := Images("v1.36.3", "registry.example.com/k8s", versions.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	release := versions.BuiltIn().Newest()
	want := []string{
		"registry.example.com/k8s/coredns/coredns:" + release.CoreDNS,
		"registry.example.com/k8s/etcd:" + release.Etcd,
		"registry.example.com/k8s/kas-network-proxy/proxy-agent:" + release.Konnectivity,
		"registry.example.com/k8s/kas-network-proxy/proxy-server:" + release.Konnectivity,
		"registry.example.com/k8s/kube-apiserver:v1.36.3",
		"registry.example.com/k8s/kube-controller-manager:v1.36.3",
		"registry.example.com/k8s/kube-proxy:v1.36.3",
		"registry.example.com/k8s/kube-scheduler:v1.36.3",
	}
	if !slices.Equal(images, want) {
		t.Errorf("the images are %q, want %q", images, want)
	}
	if _, err := Images("v1.20.0", "", versions.BuiltIn()); err == nil {
		t.Error("v1.20.0 is not supported, and has images")
	}
}
