package software

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

func TestTheVersionsThatAreTakenAreThoseThatTheLabTries(t *testing.T) {
	lab := artifacts.DefaultVersions()
	if want := (Versions{Containerd: lab.Containerd, Runc: lab.Runc, CNIPlugins: lab.CNIPlugins}); Tested != want {
		t.Errorf("%+v, and the lab tries %+v", Tested, want)
	}
}

func TestFilesAreWhereUpstreamsPublishThem(t *testing.T) {
	v := Versions{Kubernetes: "v1.36.3", Containerd: "v2.4.2", Runc: "v1.5.2", CNIPlugins: "v1.9.1", Release: "v0.2.0"}
	want := map[string][2]string{
		"kok-software": {"https://github.com/kube-on-kube/cluster-api-provider-kok/releases/download/v0.2.0/kok-software-linux-arm64",
			"https://github.com/kube-on-kube/cluster-api-provider-kok/releases/download/v0.2.0/SHA256SUMS"},
		"kok-apiserver-lb": {"https://github.com/kube-on-kube/cluster-api-provider-kok/releases/download/v0.2.0/kok-apiserver-lb-linux-arm64",
			"https://github.com/kube-on-kube/cluster-api-provider-kok/releases/download/v0.2.0/SHA256SUMS"},
		"runc": {"https://github.com/opencontainers/runc/releases/download/v1.5.2/runc.arm64", "https://github.com/opencontainers/runc/releases/download/v1.5.2/runc.sha256sum"},
		"cni-plugins": {"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz",
			"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz.sha256"},
		"containerd": {"https://github.com/containerd/containerd/releases/download/v2.4.2/containerd-2.4.2-linux-arm64.tar.gz",
			"https://github.com/containerd/containerd/releases/download/v2.4.2/containerd-2.4.2-linux-arm64.tar.gz.sha256sum"},
		"kubelet": {"https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kubelet", "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kubelet.sha256"},
	}
	files := v.files("arm64")
	if len(files) != len(want) {
		t.Errorf("%d files, want %d", len(files), len(want))
	}
	for _, file := range files {
		if got := [2]string{file.url, file.sums}; got != want[file.component] {
			t.Errorf("%s: %q", file.component, got)
		}
	}
}
