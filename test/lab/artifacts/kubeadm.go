package artifacts

import (
	"context"
	"path/filepath"
)

// Kubeadm is what it takes to join workers by kubeadm. It is no part of a Set: few who use the lab need it.
type Kubeadm struct {
	// Program is kubeadm of the newest Kubernetes version.
	Program string
	// Bootstrap is the manager of Cluster API's kubeadm bootstrap provider, BootstrapImage the image that its
	// components ask for.
	Bootstrap      string
	BootstrapImage Image
	// ClusterAPI is the provider's version.
	ClusterAPI string
}

// EnsureKubeadm builds what is missing in the cache folder, as Ensure does.
func EnsureKubeadm(ctx context.Context, cacheDir string, progress func(string)) (*Kubeadm, error) {
	v := DefaultVersions()
	kubeadm, err := kubernetesRecipe(v.Host, "kubeadm")
	if err != nil {
		return nil, err
	}
	programs, provider := "", ""
	err = inCache(ctx, cacheDir, progress, func(cache, goVersion string) error {
		if programs, err = kubeadm.build(ctx, cache, goVersion, progress); err != nil {
			return err
		}
		provider, err = kubeadmBootstrapRecipe(v.ClusterAPI).build(ctx, cache, goVersion, progress)
		return err
	})
	if err != nil {
		return nil, err
	}
	manager := filepath.Join(provider, kubeadmBootstrapProgram)
	return &Kubeadm{
		Program: filepath.Join(programs, "kubeadm"), Bootstrap: manager, BootstrapImage: clusterAPIImage(kubeadmBootstrapProgram, v.ClusterAPI, manager),
		ClusterAPI: v.ClusterAPI,
	}, nil
}

const kubeadmBootstrapProgram = "kubeadm-bootstrap-controller"

// kubeadmBootstrapRecipe builds the provider alone: the programs of clusterAPIRecipe are needed by everybody.
func kubeadmBootstrapRecipe(version string) recipe {
	r := clusterAPIRecipe(version)
	r.name = "cluster-api-kubeadm"
	r.programs = []program{{name: kubeadmBootstrapProgram, pkg: "sigs.k8s.io/cluster-api/bootstrap/kubeadm"}}
	return r
}

// clusterAPIImage is the image of a manager of Cluster API's own: its components name the program by this path.
func clusterAPIImage(name, version, manager string) Image {
	return Image{
		Name:  "registry.k8s.io/cluster-api/" + name + ":" + version,
		User:  "65532",
		Files: []File{{Path: "/manager", Source: manager}},
	}
}
