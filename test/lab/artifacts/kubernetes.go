package artifacts

import (
	"context"
	"path/filepath"
)

// OlderVersions are Kubernetes versions that are supported beside the newest: one of each older minor.
func OlderVersions() []string { return []string{"v1.34.4", "v1.35.4"} }

// Kubernetes is what a tenant of one version runs.
type Kubernetes struct {
	// Kubelet is the program on workers.
	Kubelet string
	// ControlPlane are the images for host nodes, Proxy is that of kube-proxy for workers.
	ControlPlane []Image
	Proxy        Image
}

// EnsureKubernetes builds what a tenant of one version runs, unless it is in the cache folder. The lab brings it along
// for the versions of its Set only.
func EnsureKubernetes(ctx context.Context, cacheDir, version string, progress func(string)) (*Kubernetes, error) {
	programs, err := kubernetesRecipe(version, hostPrograms...)
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{}
	return k, inCache(ctx, cacheDir, progress, func(cache, goVersion string) error {
		folder, err := programs.build(ctx, cache, goVersion, progress)
		if err != nil {
			return err
		}
		debian, err := buildDebian(ctx, cache, DefaultVersions().Debian, progress)
		if err != nil {
			return err
		}
		filter, err := packetFilter(debian)
		if err != nil {
			return err
		}
		k.Kubelet, k.ControlPlane, k.Proxy = filepath.Join(folder, "kubelet"), controlPlaneImages(version, folder), proxyImage(version, folder, filter)
		return nil
	})
}
